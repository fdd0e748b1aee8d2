"""The command line: one function a command, each a few library calls. Only this prints."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceanalyzer.errors import TraceAnalyzerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from traceanalyzer.model import Report

__all__ = ["main"]

_DONE, _ERROR, _INTERRUPTED = 0, 2, 130
_PAGE = "traceanalyzer-report.html"
_PROGRESS_AFTER_S = 1.0
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


_run_option = click.option(
    "--run", "run_name", metavar="NAME", help="Which run of the log directory; the newest else."
)
_memory_option = click.option(
    "--max-memory",
    "max_memory_bytes",
    type=_Size(),
    metavar="SIZE",
    help="Refuse a trace that needs more memory, like 8G; three quarters of the machine's else.",
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

    Without -o and --json, the page goes to traceanalyzer-report.html.
    """
    if output is None and json_file is None:
        output = Path(_PAGE)
    files = [_writable(file) for file in (output, json_file) if file is not None]
    if len({file.resolve() for file in files}) < len(files):
        msg = f"{output}: page and JSON cannot be one file; name two"
        raise click.UsageError(msg)
    _refuse_inputs(path, files)
    with _progress() as progress:
        made = _report(path, run_name, max_memory_bytes, progress)
        progress("writing")
        from traceanalyzer.report.write import write_files

        write_files(made, output, json_file)
    click.echo(made.summary.verdict)
    for file in files:
        click.echo(f"wrote {file}")


@cli.command()
@click.argument("path", type=click.Path(path_type=Path))
@_run_option
@_memory_option
def analyze(path: Path, run_name: str | None, max_memory_bytes: int | None) -> None:
    """Print the report of a profile to the terminal."""
    with _progress() as progress:
        made = _report(path, run_name, max_memory_bytes, progress)

    from rich.console import Console

    from traceanalyzer.report.summary import print_summary

    print_summary(made, Console())


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


def _report(
    path: Path,
    run_name: str | None,
    max_memory_bytes: int | None,
    progress: Callable[[str], None],
) -> Report:
    progress("starting")
    from traceanalyzer.diagnosis import diagnose
    from traceanalyzer.report.assemble import assemble
    from traceanalyzer.run import load

    run = load(path, run_name, max_memory_bytes=max_memory_bytes, progress=progress)
    progress("explaining")
    return assemble(diagnose(run))


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
        _fail(f"{error.filename or 'output'}: {(error.strerror or str(error)).lower()}")
    except MemoryError:
        _fail("out of memory; set --max-memory, or record fewer steps")
    sys.exit(code or _DONE)  # click returns the exit code of a command that names one


def _fail(message: str, code: int = _ERROR) -> None:
    _complain(message)
    sys.exit(code)


def _complain(message: str) -> None:
    line = " ".join(message.split())
    click.echo(f"traceanalyzer: {line}", err=True)
