"""Types of values on the command line, and options that several commands share."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from traceanalyzer.cli.terminal import complain

if TYPE_CHECKING:
    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.run import Run

STDOUT = Path("-")
_SECONDS = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def refuse(message: str) -> NoReturn:
    """End the command with a usage error."""
    raise click.UsageError(message)


def _reject(value: object, why: str) -> NoReturn:
    msg = f"{value!r} {why}"
    raise click.BadParameter(msg)


def size(value: object) -> int:
    """Return a size such as 500M or 8GB in bytes."""
    text = str(value).strip().lower().removesuffix("b").removesuffix("i")
    number, unit = (text[:-1], text[-1]) if text and text[-1].isalpha() else (text, "")
    try:
        found = int(float(number) * _UNITS[unit])
    except (KeyError, ValueError, OverflowError):
        found = 0
    return found if found > 0 else _reject(value, "is not a size; write e.g. 500M or 8G")


def time(value: object) -> float:
    """Return a time such as 500ms, 30s, or 2m in seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*(ms|s|m|min|h|)", str(value).strip())
    seconds = float(found[1]) * _SECONDS[found[2]] if found else math.inf
    if math.isinf(seconds):
        _reject(value, "is not a time; write e.g. 30s, 500ms, or 2m")
    return seconds


def duration(value: object) -> float:
    """Return a time in seconds; reject zero."""
    seconds = time(value)
    return seconds if seconds > 0 else _reject(value, "leaves nothing to record; write e.g. 10s")


def file_name(value: object) -> Path:
    """Return the path of a file or folder to write; refuse "" (from an unset shell variable)."""
    text = str(value)
    if not text.strip() or text == "-":
        _reject(text, "is not a file name; give one, or leave the option out")
    return Path(text)


def steps(value: object) -> tuple[int, int]:
    """Return the first and the last step of a range such as 10:20."""
    found = re.fullmatch(r"(\d{1,18}):(\d{1,18})", str(value))
    first, last = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= first <= last:
        _reject(value, "is not a range of steps; write e.g. 10:20, counted from 1")
    return first, last


def regex(value: object) -> re.Pattern[str]:
    """Compile a regular expression."""
    try:
        return re.compile(str(value))
    except (re.error, OverflowError, RecursionError) as error:
        hint = "use the syntax of Python's `re`, and escape dots and brackets: \\. and \\("
        _reject(value, f"is not a regular expression ({error}); {hint}")


@dataclass(frozen=True)
class RunToRead:
    """The run that a command reads, as named on the command line."""

    path: Path
    run_name: str | None
    max_memory_bytes: int | None
    graphs: tuple[Path, ...] = ()  #: graphs of the program

    def load(self, tell: Callable[[str], None], run_name: str | None = None) -> Run:
        """Load the run, and warn if its capture file cannot be used."""
        tell("starting")
        from traceanalyzer.health import trace_health
        from traceanalyzer.run import load

        run_name = run_name or self.run_name
        limit = self.max_memory_bytes
        run = load(self.path, run_name, graphs=self.graphs, max_memory_bytes=limit, progress=tell)
        if run.other_runs and run_name is None:
            runs = len(run.other_runs) + 1
            complain(f"read {run.name}, the newest of {runs} runs; --run selects another one")
        for remark in trace_health(run):
            if remark.is_capture_unused:
                complain(remark.message)
        return run

    def diagnose(self, tell: Callable[[str], None]) -> Diagnosis:
        """Load and diagnose the run."""
        run = self.load(tell)
        from traceanalyzer.diagnosis import diagnose

        tell("explaining")
        return diagnose(run)

    def refuse_to_overwrite(self, outputs: Iterable[Path | None]) -> None:
        """Exit with an error if the outputs cannot be written, or would replace an input."""
        from traceanalyzer.trace.discovery import find_runs

        traces = [host.path for run in find_runs(self.path) for host in run.hosts]
        check_outputs(outputs, [*traces, *self.graphs])


max_memory = click.option(
    "--max-memory",
    "max_memory_bytes",
    type=size,
    metavar="SIZE",
    help="Refuse traces that need more memory than this, e.g. 8G. Default: 75% of RAM.",
)


def reads_a_run(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the argument and options that select a run, and pass them on as a `RunToRead`."""

    @click.argument("path", type=click.Path(path_type=Path))
    @click.option("--run", "run_name", metavar="NAME", help="Run to read. Default: the newest.")
    @click.option(
        "--graph",
        "graphs",
        type=click.Path(path_type=Path),
        multiple=True,
        metavar="PATH",
        help="Graph of the program, to explain a trace without a capture: SavedModel, GraphDef, or "
        "RunMetadata, in binary form. Can be repeated. Default: graphs in events files beside the "
        "trace.",
    )
    @max_memory
    @wraps(command)
    def wrapped(path: Path, **options: Any) -> Any:  # noqa: ANN401
        of_run = {each.name: options.pop(each.name) for each in fields(RunToRead)[1:]}
        return command(RunToRead(path, **of_run), **options)

    return wrapped


def output(*names: str, **more: Any) -> Callable[..., Any]:  # noqa: ANN401 - as click has them
    """Add an option for a file or folder to write."""
    return click.option(*names, type=click.Path(path_type=Path), **more)


def check_outputs(outputs: Iterable[Path | None], inputs: Iterable[Path]) -> None:
    """Exit with an error if outputs cannot be written, are the same, or would replace an input."""
    named = [file for file in outputs if file is not None]
    if named.count(STDOUT) > 1:
        refuse("only one output can be standard output; name a file for each of the others")
    if len({file.resolve() for file in named}) < len(named):
        refuse("two outputs cannot be the same file; name two files")
    present = [path for path in inputs if path.exists()]
    for file in named:
        if file != STDOUT and writable(file).exists() and any(map(file.samefile, present)):
            refuse(f"{file}: this is an input file; name another file to write")


def writable(file: Path) -> Path:
    """Return the file; exit with an error if it is a folder or its folder does not exist."""
    if file.is_dir():
        refuse(f"{file}: this is a folder; name a file to write")
    if not file.parent.is_dir():
        refuse(f"{file}: the folder {file.parent} does not exist; create it, or name another")
    return file
