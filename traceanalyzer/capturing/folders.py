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
_STAMP: Final = "%Y_%m_%d_%H_%M_%S"
_YOUNG_S: Final = 60
_STAMPED: Final = re.compile(r"\d{4}(_\d\d){5}(_\d+)?", re.ASCII)


def host_name() -> str:
    """Return this machine's name, as part of a file's name."""
    return re.sub(r"[^\w.-]", "_", socket.gethostname(), flags=re.ASCII).lstrip(".") or "localhost"


@contextlib.contextmanager
def reserved_run(logdir: Path, name: str | None) -> Iterator[Path]:
    """Make the folder of a run, before the script starts; remove it again if it stays empty.

    Args:
        logdir: Log directory, which may not exist.
        name: Name of the run; None for the time, as TensorFlow names its runs.

    Yields:
        The run's folder, `LOGDIR/plugins/profile/NAME`.

    Raises:
        TraceAnalyzerError: It cannot be made or written to, or there is such a run.
    """
    if name is not None and (not name.strip().strip(".") or re.search(r"[/\0\n]", name)):
        msg = f"--run {name!r}: this cannot name a folder; take letters and digits"
        raise TraceAnalyzerError(msg)
    made: list[Path] = []
    lock = -1
    try:
        try:
            runs = logdir.resolve() / "plugins" / "profile"
            _make(runs, made)
            _remove_abandoned(runs)
            folder, lock = _make_run(runs, name, made)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            msg = f"{logdir}: nothing can be written there ({reason}); {_ANOTHER}"
            raise TraceAnalyzerError(msg) from None
        yield folder
    finally:
        for each in reversed(made):
            with contextlib.suppress(OSError):  # not empty: that is what was recorded
                each.rmdir()
        if lock >= 0:
            os.close(lock)


def _make(folder: Path, made: list[Path]) -> None:
    """Make a folder and those above it, noting which were not there."""
    if not folder.is_dir():
        _make(folder.parent, made) if folder.parent != folder else None
        folder.mkdir(exist_ok=True)
        made.append(folder)


def _make_run(runs: Path, name: str | None, made: list[Path]) -> tuple[Path, int]:
    """Make the folder of a run; return it and the descriptor by which it is locked."""
    if name is None:
        folder = _make_next(runs, made)
    else:
        folder = runs / name
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
            made.append(folder)
    lock = _locked(folder)
    if lock is None or any(folder.iterdir()):
        if lock is not None:
            os.close(lock)
        why = f"{runs} has such a run"
        if lock is None:
            why = "another capture is recording a run of this name"
        msg = f"--run {folder.name}: {why}; give another name, or leave --run out"
        raise TraceAnalyzerError(msg)
    return folder, lock


def _make_next(runs: Path, made: list[Path]) -> Path:
    """Make a folder that is named after the time, as TensorFlow names its runs."""
    stamp = time.strftime(_STAMP)
    for number in itertools.count(1):
        folder = runs / (stamp if number == 1 else f"{stamp}_{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        made.append(folder)
        return folder
    raise AssertionError  # there is always a next number


def _locked(folder: Path) -> int | None:
    """Lock a folder as long as this process lives; return a descriptor to close, None if taken.

    Where folders cannot be locked, as on network file systems, it is not.
    """
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    # Not one of the three that the script inherits: a closed stderr must stay closed.
    descriptor = fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(opened)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        pass
    return descriptor


def _remove_abandoned(runs: Path) -> None:
    """Remove empty folders of captures that were killed before they could do so themselves."""
    for folder in runs.iterdir():
        if not _STAMPED.fullmatch(folder.name):
            continue
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime < _YOUNG_S:
                continue  # not locked yet, perhaps
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                folder.rmdir()  # only what is empty
            finally:
                os.close(descriptor)


@contextlib.contextmanager
def work_folder() -> Iterator[Path]:
    """Make a temporary folder, for what the recorder and TensorFlow write while the script runs.

    Raises:
        TraceAnalyzerError: There is no room for one.
    """
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
