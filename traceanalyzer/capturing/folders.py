"""Where a capture writes: the log directory, the run in it, and a temporary folder to work in."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import re
import shutil
import socket
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from traceanalyzer.errors import TraceAnalyzerError

if TYPE_CHECKING:
    from collections.abc import Iterator

_ANOTHER: Final = "give another with --logdir"
_UNLOCKED_S: Final = 2.0  # another capture locks its new folder within this
_STAMP: Final = "%Y_%m_%d_%H_%M_%S"


def host_name() -> str:
    """Return this machine's name, as part of a file's name."""
    return re.sub(r"[^\w.-]", "_", socket.gethostname(), flags=re.ASCII).lstrip(".") or "localhost"


@contextlib.contextmanager
def reserved_run(logdir: Path, name: str | None) -> Iterator[Path]:
    """Make the folder of a run, `LOGDIR/plugins/profile/NAME`; remove it again if it stays empty.

    Without a name, the time is the name, as TensorFlow names its runs.

    Raises:
        TraceAnalyzerError: It cannot be made or written to, or there is such a run.
    """
    if name is not None and (not name.strip().strip(".") or re.search(r"[/\0\n]", name)):
        msg = f"--run {name!r}: this cannot name a folder; take letters and digits"
        raise TraceAnalyzerError(msg)
    made: list[Path] = []
    try:
        try:
            runs = logdir.resolve() / "plugins" / "profile"
            _make(runs, made)
            _remove_leftovers(runs)
            folder = _make_run(runs, name)
            made.append(folder)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            msg = f"{logdir}: nothing can be written there ({reason}); {_ANOTHER}"
            raise TraceAnalyzerError(msg) from None
        with _locked(folder):
            yield folder
    finally:
        for each in reversed(made):
            with contextlib.suppress(OSError):  # not empty: that is what was recorded
                each.rmdir()


def _make(folder: Path, made: list[Path]) -> None:
    """Make a folder and those above it, noting which were not there."""
    if not folder.is_dir():
        _make(folder.parent, made) if folder.parent != folder else None
        folder.mkdir(exist_ok=True)
        made.append(folder)


def _make_run(runs: Path, name: str | None) -> Path:
    """Make the folder of a run, which no other capture can make as well."""
    stamp = time.strftime(_STAMP)
    names = itertools.chain([stamp], (f"{stamp}_{number}" for number in itertools.count(2)))
    for each in names if name is None else (name,):
        with contextlib.suppress(FileExistsError):
            (runs / each).mkdir()
            return runs / each
    msg = f"--run {name}: {runs} has such a run; give another name, or leave --run out"
    raise TraceAnalyzerError(msg)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Lock a folder, at the longest until this process ends; yield whether that was possible."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_locked = True
        except OSError:
            is_locked = False
        yield is_locked
    finally:
        os.close(descriptor)


def _remove_leftovers(runs: Path) -> None:
    """Remove the empty folders of captures that were killed before they could do so themselves."""
    for folder in runs.iterdir():
        with contextlib.suppress(OSError):  # another capture removes it too, or it is not empty
            is_old = time.time() - folder.stat().st_mtime > _UNLOCKED_S
            if is_old and not any(folder.iterdir()):
                with _locked(folder) as is_locked:
                    if is_locked:
                        folder.rmdir()


@contextlib.contextmanager
def work_folder() -> Iterator[Path]:
    """Make a temporary folder, for what the recorder and TensorFlow write while the script runs."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="traceanalyzer-")).resolve()
        (folder / "graphs").mkdir()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        where = os.environ.get("TMPDIR", "/tmp")  # noqa: S108 - a word in a message
        msg = f"{where}: no temporary folder can be made ({reason}); set TMPDIR to one with room"
        raise TraceAnalyzerError(msg) from None
    try:
        yield folder
    finally:
        # What the script left behind may still be writing there.
        for _ in range(3):
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                break
