"""The command line: one function a command, each a few library calls. Only this prints."""

from __future__ import annotations

import errno
import gc
import io
import math
import os
import re
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.trace.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rich.console import Console

    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.model import Report

__all__ = ["main"]

_DONE, _ERROR, _INTERRUPTED = 0, 2, 130
_PAGE = "traceanalyzer-report.html"
_STDOUT = Path("-")
_PROGRESS_AFTER_S = 1.0
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
_UNWRAPPED = 100_000  # columns: what is printed has no line as long
_SECONDS = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_FOR_S = 10.0  # what --after records unless told otherwise
# Of objects made, until Python looks for garbage: at its own 700 that takes a twelfth of a report's
# time and finds next to none.
_OBJECTS_PER_COLLECTION = 100_000
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


class _Size(click.ParamType):  # type: ignore[type-arg]  # generic in click's newest only
    """A number of bytes, with a unit: `500M`, `8GB`."""

    name = "size"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return the number of bytes."""
        if isinstance(value, int):
            return value
        text = str(value).strip().lower().removesuffix("b").removesuffix("i")
        number, unit = (text[:-1], text[-1]) if text and text[-1].isalpha() else (text, "")
        try:
            size = int(float(number) * _UNITS[unit])
        except (KeyError, ValueError, OverflowError):
            size = 0
        if size <= 0:
            self.fail(f"{value!r} is no size; write it like 500M or 8G", param, ctx)
        return size


class _Time(click.ParamType):  # type: ignore[type-arg]
    """A time with a unit: `500ms`, `30s`, `2m`; seconds without one."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number of seconds."""
        found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*(ms|s|m|min|h|)", str(value).strip())
        seconds = float(found[1]) * _SECONDS[found[2]] if found else math.inf
        if math.isinf(seconds):
            self.fail(f"{value!r} is no time; write it like 30s, 500ms or 2m", param, ctx)
        return seconds


class _Duration(_Time):
    """A time that is more than none."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number of seconds."""
        seconds = super().convert(value, param, ctx)
        if seconds <= 0:
            self.fail(f"{value!r} leaves nothing to record; write it like 10s", param, ctx)
        return seconds


class _Name(click.ParamType):  # type: ignore[type-arg]
    """The name of a file or folder to write, which is not there where a variable was not set."""

    name = "path"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path:
        """Return the path."""
        text = str(value)
        if not text.strip() or text == "-":
            self.fail(f"{text!r} names nothing; give a name, or leave the option out", param, ctx)
        return Path(text)


class _Steps(click.ParamType):  # type: ignore[type-arg]
    """A range of steps, counted from 1, both included: `10:20`."""

    name = "steps"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """Return the first and the last step."""
        found = re.fullmatch(r"(\d{1,18}):(\d{1,18})", str(value))
        first, last = (int(found[1]), int(found[2])) if found else (0, 0)
        if not 1 <= first <= last:
            wanted = "write it like 10:20, counted from 1"
            self.fail(f"{value!r} is no range of steps; {wanted}", param, ctx)
        return first, last


class _Expression(click.ParamType):  # type: ignore[type-arg]
    """A regular expression."""

    name = "regex"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> re.Pattern[str]:
        """Return it compiled."""
        if isinstance(value, re.Pattern):
            return value
        try:
            return re.compile(str(value))
        except (re.error, OverflowError, RecursionError) as error:
            wanted = "write it as for Python's `re`, a dot or bracket of a name as \\. or \\("
            self.fail(f"{value!r} is no regular expression ({error}); {wanted}", param, ctx)


_run_option = click.option(
    "--run", "run_name", metavar="NAME", help="Which run of the log directory; the newest else."
)
_memory_option = click.option(
    "--max-memory",
    "max_memory_bytes",
    type=_Size(),
    metavar="SIZE",
    help="Refuse traces whose report needs more memory than this, e.g. 8G. Default: 75% of RAM.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="traceanalyzer", message="%(prog)s %(version)s")
def cli() -> None:
    """Why did this TensorFlow op run on the CPU, what does it cost, and what do I change?"""


@cli.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="HTML", help="The page.")
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path), metavar="JSON", help="The same as data."
)
@_run_option
@_memory_option
def report(
    path: Path,
    output: Path | None,
    json_file: Path | None,
    run_name: str | None,
    max_memory_bytes: int | None,
) -> None:
    """Write the report of a profile: PATH is a log directory, a run directory or a trace file.

    Without -o and --json, the page goes to traceanalyzer-report.html. `-` is standard output.
    """
    if output is None and json_file is None:
        output = Path(_PAGE)
    named = [file for file in (output, json_file) if file is not None]
    files = [_writable(file) for file in named if file != _STDOUT]
    if len({file.resolve() for file in named}) < len(named):
        msg = f"{output}: page and JSON cannot be one file; name two"
        raise click.UsageError(msg)
    _refuse_inputs(path, files)
    with _progress() as progress:
        made = _report(path, run_name, max_memory_bytes, progress)
        progress("writing")
        from traceanalyzer.report.write import write_files

        write_files(made, *(None if f == _STDOUT else f for f in (output, json_file)))
    if output == _STDOUT:
        from traceanalyzer.report.page import render_page

        click.echo(render_page(made).encode(), nl=False)
    if json_file == _STDOUT:
        from traceanalyzer.report.document import dumps

        click.echo(dumps(made).encode(), nl=False)
    is_taken = _STDOUT in named
    click.echo(made.summary.verdict, err=is_taken)
    for file in files:
        click.echo(f"wrote {printable(file)}", err=is_taken)


@cli.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--op",
    "expression",
    type=_Expression(),
    metavar="REGEX",
    help="Only the ops whose name or type matches, each with all that is known of its placement.",
)
@_run_option
@_memory_option
def analyze(
    path: Path,
    expression: re.Pattern[str] | None,
    run_name: str | None,
    max_memory_bytes: int | None,
) -> None:
    """Print the report of a profile to the terminal, or why single ops ran where they did."""
    if expression is not None:
        from traceanalyzer.report.reasoning import reason
        from traceanalyzer.report.reasoning_text import print_reasonings

        with _progress() as progress:
            reasoned = reason(_diagnosis(path, run_name, max_memory_bytes, progress), expression)
        with _console() as console:
            print_reasonings(reasoned, console)
        return
    with _progress() as progress:
        made = _report(path, run_name, max_memory_bytes, progress)

    from traceanalyzer.report.summary import print_summary

    with _console() as console:
        print_summary(made, console)


@cli.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, metavar="DIR", help="Folder."
)
@click.option("--events", is_flag=True, help="Also write every event (Parquet only: it is large).")
@_run_option
@_memory_option
def tables(
    path: Path, output: Path, run_name: str | None, max_memory_bytes: int | None, *, events: bool
) -> None:
    """Write the tables of a profile as Parquet and CSV, one folder a run."""
    from traceanalyzer.export import write_tables
    from traceanalyzer.run import load, runs

    if output == _STDOUT:
        msg = "-: tables are several files; give a folder to write them into"
        raise click.UsageError(msg)
    if output.exists() and not output.is_dir():
        msg = f"{output}: this is a file; give a folder to write the tables into"
        raise click.UsageError(msg)
    failed = False
    for name in [run_name] if run_name else runs(path):
        try:
            with _progress() as progress:
                run = load(path, name, max_memory_bytes=max_memory_bytes, progress=progress)
                progress("writing tables")
                written = write_tables(run, output, with_events=events)
        except (
            TraceAnalyzerError
        ) as error:  # one bad run does not keep the others from their tables
            _complain(str(error))
            failed = True
        else:
            click.echo(f"wrote {written}")
    if failed:
        raise click.exceptions.Exit(_ERROR)


@cli.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--copy-graph", is_flag=True, help="Who copied what to whom, as .graphml or .json.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="The file; the ending of its name says in which format.",
)
@_run_option
@_memory_option
def export(
    path: Path,
    output: Path,
    run_name: str | None,
    max_memory_bytes: int | None,
    *,
    copy_graph: bool,
) -> None:
    """Write what was found in a profile for other programs."""
    if not copy_graph:
        msg = "say what to export: --copy-graph"
        raise click.UsageError(msg)
    from traceanalyzer.copy_graph.export import FORMATS
    from traceanalyzer.run import load
    from traceanalyzer.whole_file import write_whole

    written = FORMATS.get(output.suffix.lower())
    if written is None:
        msg = f"{output}: a copy graph is written as {' or '.join(FORMATS)}; end its name so"
        raise click.UsageError(msg)
    _refuse_inputs(path, [_writable(output)])
    with _progress() as progress:
        run = load(path, run_name, max_memory_bytes=max_memory_bytes, progress=progress)
        progress("writing")
        write_whole(output, written(run.copy_graph))
    click.echo(f"wrote {output}")


@cli.command()
@click.argument("op", required=False)
@click.option("--dtype", metavar="TYPE", help="Only for data of this type, like int32.")
@click.option("--tf", metavar="VERSION", help="Version of TensorFlow, like 2.15; the newest else.")
@click.option("--cpu-only", is_flag=True, help="List the ops that have no GPU kernel.")
@click.option("--json", "as_data", is_flag=True, help="The same as JSON.")
def kernels(
    op: str | None, dtype: str | None, tf: str | None, *, cpu_only: bool, as_data: bool
) -> None:
    """Tell whether OP has a GPU kernel: for which types, since when, what stays on the host.

    OP is an op type, like MatMul. TensorFlow need not be installed.
    """
    from traceanalyzer import kernel_answers

    if (op is None) != cpu_only:
        msg = "give one of an op type, like MatMul, and --cpu-only"
        raise click.UsageError(msg)
    if op is None:
        listed = kernel_answers.cpu_only(dtype, tf)
        if as_data:
            _echo_json(kernel_answers.as_json(listed))
            return
        for note in listed.notes:
            _complain(note)
        for name in listed.ops:
            click.echo(name)
        return
    answer = kernel_answers.answer(op, dtype, tf)
    if as_data:
        _echo_json(kernel_answers.as_json(answer))
        return
    from traceanalyzer.report.kernel_text import print_answer

    with _console() as console:
        print_answer(answer, console)


@cli.command()
@click.argument("cause", required=False)
@click.option("--json", "as_data", is_flag=True, help="The same as JSON.")
def explain(cause: str | None, *, as_data: bool) -> None:
    """Print the page of a CAUSE: when it applies, why it happens, what to do, how sure it is.

    CAUSE is called as in the reports, like no_gpu_kernel. Without one, the causes are listed.
    """
    from traceanalyzer.report import explain_text
    from traceanalyzer.rules import all_rules

    rules = all_rules()
    rule = None if cause is None else explain_text.find_cause(cause, rules)
    if as_data:
        _echo_json(explain_text.list_json(rules) if rule is None else explain_text.page_json(rule))
        return
    with _console() as console:
        if rule is None:
            explain_text.print_causes(rules, console)
        else:
            explain_text.print_cause(rule, console)


@cli.command(context_settings={"allow_interspersed_args": False}, options_metavar="[OPTIONS] [-m]")
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS]...")
@click.option("-m", "is_module", is_flag=True, help="SCRIPT is a module, as with python -m.")
@click.option(
    "--python",
    metavar="PATH",
    help="Interpreter of the script's environment, with its options if any; this one else.",
)
@click.option(
    "--logdir",
    type=_Name(),
    default="traceanalyzer-logs",
    metavar="DIR",
    help="Log directory, for TensorBoard too; traceanalyzer-logs else.",
)
@click.option("--run", "run_name", metavar="NAME", help="Name of the run; the time else.")
@click.option(
    "--report",
    "page",
    type=_Name(),
    default=_PAGE,
    metavar="HTML",
    help=f"The page; {_PAGE} else.",
)
@click.option("--no-report", is_flag=True, help="Write no page.")
@click.option(
    "--steps", type=_Steps(), metavar="A:B", help="Record steps A to B, from 1, both included."
)
@click.option("--after", type=_Time(), metavar="TIME", help="Record from then on, like 30s.")
@click.option(
    "--for", "for_s", type=_Duration(), metavar="TIME", help="Record for so long; 10s else."
)
@click.option(
    "--host-tracer-level",
    type=click.IntRange(1, 3),
    default=2,
    metavar="LEVEL",
    help="1 to 3; 2 else: 3 adds shapes, cheap ops and ops on GPUs; costs up to a fifth more time.",
)
@click.option("--python-tracer/--no-python-tracer", help="Record calls of Python functions.")
@click.option(
    "--device-tracer/--no-device-tracer", default=True, help="Record what runs on GPUs (it does)."
)
@click.option(
    "--source/--no-source",
    default=True,
    help="Keep the text of the script's lines that made ops (it does): reports show them.",
)
def capture(  # noqa: PLR0913 - as many as it has options
    *,
    script: str,
    arguments: tuple[str, ...],
    is_module: bool,
    python: str | None,
    logdir: Path,
    run_name: str | None,
    page: Path,
    no_report: bool,
    steps: tuple[int, int] | None,
    after: float | None,
    for_s: float | None,
    host_tracer_level: int,
    python_tracer: bool,
    device_tracer: bool,
    source: bool,
) -> int:
    """Run a script under TensorFlow's profiler: the trace, the evidence, and the report.

    SCRIPT and its ARGUMENTS are as for python. It runs as without the capture, which passes its
    exit code on.
    """
    from traceanalyzer.launch.command import Program, interpreter
    from traceanalyzer.launch.orchestrate import Request, record
    from traceanalyzer.launch.supervise import end_like

    program = Program(
        interpreter=interpreter(python), target=script, is_module=is_module, arguments=arguments
    )
    request = Request(
        program=program,
        logdir=logdir,
        run=run_name,
        host_tracer_level=host_tracer_level,
        python_tracer=python_tracer,
        device_tracer=device_tracer,
        window=_window(steps, after, for_s),
        report=None if no_report else _not_over(_writable(page), program.sources),
        source=source,
    )
    return end_like(record(request, _tell))


def _window(
    steps: tuple[int, int] | None, after: float | None, for_s: float | None
) -> dict[str, object]:
    """Return which part of a script is recorded, as the recorder is told."""
    if steps is not None and (after is not None or for_s is not None):
        msg = "--steps and --after or --for exclude each other; give steps or times"
        raise click.UsageError(msg)
    if steps is not None:
        return {"kind": "steps", "first": steps[0], "last": steps[1]}
    if after is not None or for_s is not None:
        return {
            "kind": "time",
            "after_s": 0.0 if after is None else after,
            "for_s": _FOR_S if for_s is None else for_s,
        }
    return {"kind": "auto"}


def _report(
    path: Path,
    run_name: str | None,
    max_memory_bytes: int | None,
    progress: Callable[[str], None],
) -> Report:
    diagnosis = _diagnosis(path, run_name, max_memory_bytes, progress)
    from traceanalyzer.report.assemble import assemble

    return assemble(diagnosis)


def _diagnosis(
    path: Path,
    run_name: str | None,
    max_memory_bytes: int | None,
    progress: Callable[[str], None],
) -> Diagnosis:
    progress("starting")
    from traceanalyzer.diagnosis import diagnose
    from traceanalyzer.run import load

    run = load(path, run_name, max_memory_bytes=max_memory_bytes, progress=progress)
    progress("explaining")
    return diagnose(run)


def _refuse_inputs(path: Path, outputs: list[Path]) -> None:
    """Refuse to write over a trace."""
    from traceanalyzer.trace.discovery import find_runs

    inputs = [host.path for run in find_runs(path) for host in run.hosts]
    for file in outputs:
        if file.exists() and any(file.samefile(trace) for trace in inputs if trace.exists()):
            msg = f"{file}: this is a trace to be read; name another file to write"
            raise click.UsageError(msg)


def _writable(file: Path) -> Path:
    """Refuse early what could not be written after all the work."""
    if file.is_dir():
        msg = f"{file}: this is a folder; give the name of a file to write"
        raise click.UsageError(msg)
    if not file.parent.is_dir():
        msg = f"{file}: there is no folder {file.parent}; make it, or choose another"
        raise click.UsageError(msg)
    return file


def _not_over(page: Path, sources: Iterable[Path]) -> Path:
    """Refuse to write over the script."""
    if page.exists() and any(page.samefile(source) for source in sources if source.exists()):
        msg = f"{page}: this is the script; name another file for the page"
        raise click.UsageError(msg)
    return page


@contextmanager
def _console() -> Iterator[Console]:
    """Yield what text is printed to: a terminal wraps it, a pipe or a file does not."""
    from rich.console import Console

    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        yield Console()
        return
    unwrapped = _Unwrapped()
    yield Console(file=unwrapped, width=_UNWRAPPED)
    # Rich pads the cells of a table to the width of their column.
    for line in unwrapped.getvalue().removesuffix("\n").split("\n"):
        sys.stdout.write(f"{line.rstrip()}\n")


class _Unwrapped(io.StringIO):
    """Text on its way to stdout, of which it has the encoding."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return sys.stdout.encoding


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show what is going on, on a terminal and from the second second on."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task("starting", total=None)
    timer = threading.Timer(_PROGRESS_AFTER_S, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda text: bar.update(task, description=click.style(text).replace("[", "\\["))
    finally:
        timer.cancel()
        timer.join()
        bar.stop()


def main(arguments: list[str] | None = None) -> None:
    """Run the command line: every failure is one line on stderr and the exit code 2."""
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    arguments = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        code = cli.main(args=arguments, prog_name="traceanalyzer", standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        _fail("interrupted", _INTERRUPTED)
    except click.ClickException as error:
        _fail(error.format_message())
    except TraceAnalyzerError as error:
        _fail(str(error))
    except (BrokenPipeError, SystemExit):
        # The reader of a pipe went away: click and rich would end the process with 1.
        # Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(_DONE)
    except OSError as error:
        room = "; make room, or write elsewhere" if error.errno in _NO_ROOM else ""
        name = printable(error.filename or "output")
        _fail(f"{name}: {(error.strerror or str(error)).lower()}{room}")
    except MemoryError:
        _fail("out of memory; set --max-memory, or record fewer steps")
    sys.exit(code or _DONE)  # click returns the exit code of a command that names one


def _fail(message: str, code: int = _ERROR) -> None:
    _complain(message)
    sys.exit(code)


def _tell(line: str) -> None:
    """Write a line to stderr, whatever became of that while the script ran."""
    with suppress(OSError):
        os.write(2, f"traceanalyzer: {line}\n".encode("utf-8", "replace"))


def _echo_json(data: object) -> None:
    import json

    click.echo(json.dumps(data, indent=2))


def _complain(message: str) -> None:
    line = " ".join(message.split())
    click.echo(f"traceanalyzer: {line}", err=True)
