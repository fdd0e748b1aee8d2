"""The command line: one function per command. Only this module prints."""

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
_UNWRAPPED = 100_000  # columns: more than any printed line has
_SECONDS = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_FOR_S = 10.0
# Objects made before Python collects garbage. Its default of 700 costs 8 % of a report's time and
# finds next to nothing.
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
            self.fail(f"{value!r} is not a size; write e.g. 500M or 8G", param, ctx)
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
            self.fail(f"{value!r} is not a time; write e.g. 30s, 500ms, or 2m", param, ctx)
        return seconds


class _Duration(_Time):
    """A time above zero."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number of seconds."""
        seconds = super().convert(value, param, ctx)
        if seconds <= 0:
            self.fail(f"{value!r} leaves nothing to record; write e.g. 10s", param, ctx)
        return seconds


class _Name(click.ParamType):  # type: ignore[type-arg]
    """The name of a file or folder to write; not empty, as an unset shell variable is."""

    name = "path"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path:
        """Return the path."""
        text = str(value)
        if not text.strip() or text == "-":
            self.fail(f"{text!r} is not a file name; give one, or leave the option out", param, ctx)
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
            msg = f"{value!r} is not a range of steps; write e.g. 10:20, counted from 1"
            self.fail(msg, param, ctx)
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
            hint = "use the syntax of Python's `re`; escape dots and brackets: \\. and \\("
            self.fail(f"{value!r} is not a regular expression ({error}); {hint}", param, ctx)


_run_option = click.option(
    "--run", "run_name", metavar="NAME", help="Run to read. Default: the newest."
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
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="HTML", help="Page to write."
)
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path), metavar="JSON", help="Data to write."
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
    """Write the report of a profile: PATH is a log directory, a run directory, or a trace file.

    Without -o and --json, the page is written to traceanalyzer-report.html. `-` is standard output.
    """
    if output is None and json_file is None:
        output = Path(_PAGE)
    named = [file for file in (output, json_file) if file is not None]
    files = [_writable(file) for file in named if file != _STDOUT]
    if len({file.resolve() for file in named}) < len(named):
        msg = f"{output}: page and JSON cannot be the same file; name two files"
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
    help="Explain the placement of each op whose name or type matches, in full.",
)
@_run_option
@_memory_option
def analyze(
    path: Path,
    expression: re.Pattern[str] | None,
    run_name: str | None,
    max_memory_bytes: int | None,
) -> None:
    """Print a short report of a profile, or explain the placement of single ops."""
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
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="Folder to write.",
)
@click.option("--events", is_flag=True, help="Also write every event, as Parquet only.")
@_run_option
@_memory_option
def tables(
    path: Path, output: Path, run_name: str | None, max_memory_bytes: int | None, *, events: bool
) -> None:
    """Write the tables of a profile as Parquet and CSV, one folder per run."""
    from traceanalyzer.export import write_tables
    from traceanalyzer.run import load, runs

    if output == _STDOUT:
        msg = "-: tables are several files; name a folder to write them to"
        raise click.UsageError(msg)
    if output.exists() and not output.is_dir():
        msg = f"{output}: this is a file; name a folder to write the tables to"
        raise click.UsageError(msg)
    failed = False
    for name in [run_name] if run_name else runs(path):
        try:
            with _progress() as progress:
                run = load(path, name, max_memory_bytes=max_memory_bytes, progress=progress)
                progress("writing tables")
                written = write_tables(run, output, with_events=events)
        except TraceAnalyzerError as error:
            _complain(str(error))
            failed = True
        else:
            click.echo(f"wrote {written}")
    if failed:
        raise click.exceptions.Exit(_ERROR)


@cli.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--transfer-graph", is_flag=True, help="The graph of copies between ops, as .graphml or .json."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="File to write; its ending sets the format.",
)
@_run_option
@_memory_option
def export(
    path: Path,
    output: Path,
    run_name: str | None,
    max_memory_bytes: int | None,
    *,
    transfer_graph: bool,
) -> None:
    """Write parts of the analysis for other programs to read."""
    if not transfer_graph:
        msg = "say what to export: --transfer-graph"
        raise click.UsageError(msg)
    from traceanalyzer.run import load
    from traceanalyzer.transfers.export import FORMATS
    from traceanalyzer.whole_file import write_whole

    written = FORMATS.get(output.suffix.lower())
    if written is None:
        msg = f"{output}: unknown format; end the name in {' or '.join(FORMATS)}"
        raise click.UsageError(msg)
    _refuse_inputs(path, [_writable(output)])
    with _progress() as progress:
        run = load(path, run_name, max_memory_bytes=max_memory_bytes, progress=progress)
        progress("writing")
        write_whole(output, written(run.transfer_graph))
    click.echo(f"wrote {output}")


@cli.command()
@click.argument("op", required=False)
@click.option("--dtype", metavar="TYPE", help="Answer for this dtype only, e.g. int32.")
@click.option(
    "--tf", metavar="VERSION", help="TensorFlow version, e.g. 2.15. Default: the newest known."
)
@click.option("--cpu-only", is_flag=True, help="List the ops without a GPU kernel.")
@click.option("--json", "as_data", is_flag=True, help="Print JSON.")
def kernels(
    op: str | None, dtype: str | None, tf: str | None, *, cpu_only: bool, as_data: bool
) -> None:
    """Print for which dtypes OP has a GPU kernel, since which version, and what stays on the host.

    OP is an op type, e.g. MatMul. TensorFlow need not be installed.
    """
    from traceanalyzer import kernel_answers

    if (op is None) != cpu_only:
        msg = "give either an op type, e.g. MatMul, or --cpu-only"
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
@click.option("--terms", is_flag=True, help="Print the glossary.")
@click.option("--json", "as_data", is_flag=True, help="Print JSON.")
def explain(cause: str | None, *, terms: bool, as_data: bool) -> None:
    """Print what a CAUSE means, why it happens, and how to fix it.

    CAUSE is an id from a report, e.g. no_gpu_kernel. Without one, the causes are listed.
    """
    from traceanalyzer.causes import all_causes
    from traceanalyzer.report import explain_text

    if terms:
        if cause is not None:
            msg = "--terms prints the glossary; leave out CAUSE, or --terms"
            raise click.UsageError(msg)
        glossary = explain_text.terms()
        if as_data:
            _echo_json(glossary)
            return
        with _console() as console:
            explain_text.print_terms(glossary, console)
        return
    causes = all_causes()
    found = None if cause is None else explain_text.find_cause(cause, causes)
    if as_data:
        data = explain_text.list_json(causes) if found is None else explain_text.page_json(found)
        _echo_json(data)
        return
    with _console() as console:
        if found is None:
            explain_text.print_causes(causes, console)
        else:
            explain_text.print_cause(found, console)


@cli.command(context_settings={"allow_interspersed_args": False}, options_metavar="[OPTIONS] [-m]")
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS]...")
@click.option("-m", "is_module", is_flag=True, help="SCRIPT is a module name, as for python -m.")
@click.option(
    "--python",
    metavar="PATH",
    help="Interpreter to run the script with, and its options. Default: this one.",
)
@click.option(
    "--logdir",
    type=_Name(),
    default="traceanalyzer-logs",
    metavar="DIR",
    help="Log directory, also for TensorBoard. Default: traceanalyzer-logs.",
)
@click.option(
    "--run", "run_name", metavar="NAME", help="Name of the run. Default: the current time."
)
@click.option(
    "--report",
    "page",
    type=_Name(),
    default=_PAGE,
    metavar="HTML",
    help=f"Page to write. Default: {_PAGE}.",
)
@click.option("--no-report", is_flag=True, help="Do not write a page.")
@click.option(
    "--steps",
    type=_Steps(),
    metavar="A:B",
    help="Record steps A to B, counted from 1, both included.",
)
@click.option(
    "--after", type=_Time(), metavar="TIME", help="Start to record after this time, e.g. 30s."
)
@click.option(
    "--for", "for_s", type=_Duration(), metavar="TIME", help="Record for this long. Default: 10s."
)
@click.option(
    "--host-tracer-level",
    type=click.IntRange(1, 3),
    default=2,
    metavar="LEVEL",
    help="Level 3 adds shapes, cheap ops, and ops on GPUs, and takes up to 20% longer. Default: 2.",
)
@click.option(
    "--python-tracer/--no-python-tracer", help="Record calls of Python functions. Default: off."
)
@click.option(
    "--device-tracer/--no-device-tracer",
    default=True,
    help="Record what runs on GPUs. Default: on.",
)
@click.option(
    "--source/--no-source",
    default=True,
    help="Keep the text of the lines that made ops, for reports to show. Default: on.",
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
    """Run a script under TensorFlow's profiler, and write a report on it.

    SCRIPT and its ARGUMENTS are those of `python SCRIPT ARGUMENTS`. Its terminal, signals, output,
    and exit code are as without the capture.

    A script of less than 20 s is recorded whole. Of a longer one some seconds of its steps are
    recorded: where a function is called repeatedly, `fit` of Keras trains, or eager ops repeat. The
    report says how much that is. Choose another part with --steps, or with --after and --for.

    The log directory gets the trace (HOST.xplane.pb) and beside it the capture file
    (HOST.placement.json.gz): requested devices, dtypes, source lines, and the graphs that
    TensorFlow placed. Arguments that look like secrets are masked in it.

    Not recorded: processes that the script starts, and anything after it was killed. In code, use
    `traceanalyzer.capture(logdir)` or `traceanalyzer.capture_callback(logdir)`.
    """
    from traceanalyzer.capturing.command import Program, interpreter
    from traceanalyzer.capturing.orchestrate import Request, record
    from traceanalyzer.capturing.supervise import end_like

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
    """Return the part of a script to record, as the recorder's settings have it."""
    if steps is not None and (after is not None or for_s is not None):
        msg = "--steps cannot be combined with --after or --for; choose steps or times"
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
            msg = f"{file}: this is the trace to read; name another file to write"
            raise click.UsageError(msg)


def _writable(file: Path) -> Path:
    """Return a file that can be written; refuse others before the work begins."""
    if file.is_dir():
        msg = f"{file}: this is a folder; name a file to write"
        raise click.UsageError(msg)
    if not file.parent.is_dir():
        msg = f"{file}: the folder {file.parent} does not exist; create it, or name another"
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
    """Yield the console to print to. Lines are wrapped in a terminal, not in a pipe or file."""
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
    """Text that will go to stdout, and has its encoding."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return sys.stdout.encoding


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show the progress after one second, if stderr is a terminal."""
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
    """Run the command line. A failure is one line on stderr and exit code 2."""
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
    sys.exit(code or _DONE)  # click returns the exit code of `capture`


def _fail(message: str, code: int = _ERROR) -> None:
    _complain(message)
    sys.exit(code)


def _tell(line: str) -> None:
    """Write a line to stderr, even if the script closed it."""
    with suppress(OSError):
        os.write(2, f"traceanalyzer: {line}\n".encode("utf-8", "replace"))


def _echo_json(data: object) -> None:
    import json

    click.echo(json.dumps(data, indent=2))


def _complain(message: str) -> None:
    line = " ".join(message.split())
    click.echo(f"traceanalyzer: {line}", err=True)
