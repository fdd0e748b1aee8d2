"""Output of the command line: text on stdout, progress and errors on stderr."""

from __future__ import annotations

import io
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

_PROGRESS_AFTER_S = 1.0
_UNWRAPPED = 100_000  # columns; longer than any printed line


def complain(message: str) -> None:
    """Print a message on stderr, as one line."""
    click.echo(f"traceanalyzer: {' '.join(message.split())}", err=True)


def tell(line: str) -> None:
    """Write a line to stderr, even if the script closed `sys.stderr`."""
    with suppress(OSError):
        os.write(2, f"traceanalyzer: {line}\n".encode("utf-8", "replace"))


def discard_output() -> None:
    """Discard all further output, because stdout is closed or its reader has exited."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    else:  # Python would complain again when it flushes at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def outlives_reader() -> Iterator[None]:
    """Discard the rest of the output if its reader exits, so that the exit code stays true."""
    try:
        yield
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # rich would end the process
        discard_output()


def echo_json(data: object) -> None:
    """Print data as JSON."""
    with outlives_reader():
        click.echo(json.dumps(data, indent=2))


@contextmanager
def console() -> Iterator[Console]:
    """Yield a console for stdout that wraps lines in a terminal, but not in a pipe or file."""
    with outlives_reader(), _console() as screen:
        yield screen


@contextmanager
def _console() -> Iterator[Console]:
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
    """A text buffer with the encoding of stdout."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return sys.stdout.encoding


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Yield a function that sets the progress text, shown after one second on a terminal."""
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
