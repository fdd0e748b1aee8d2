"""Tells a signal that was sent to the whole process group from one that was sent to us alone.

The script is in our process group: what a terminal, or `kill -- -PGID`, sends to the group has
reached it already, and passed on it would arrive twice. `kill PID` of us has to be passed on. The
system does not say which of the two a signal was; but a third process in the group, which does
nothing else, got it too or did not.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

__all__ = ["Witness", "before_exec"]

_PR_SET_PDEATHSIG: Final = 1
_LATE_S: Final = 0.05  # by then the other process has run, on any machine that is not at a halt
_OLD_S: Final = 1.0  # a mark older than that belongs to another signal

_libc: Final = ctypes.CDLL(None, use_errno=True)


def before_exec(mask: Collection[int]) -> Callable[[], None]:
    """Return what a process that we start does before it becomes another program.

    Args:
        mask: The signals that are to be blocked in it.
    """
    parent = os.getpid()

    def prepare() -> None:
        _die_with(parent)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    return prepare


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent dies, however that comes about."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)  # it died before


class Witness:
    """A process in our group that reports each signal it gets. Close it at the end."""

    def __init__(self, signals: Collection[int]) -> None:
        """Fork; the signals are blocked in this process already."""
        self._seen: list[tuple[int, float]] = []
        self._marks, write_end = os.pipe()
        parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            with contextlib.suppress(BaseException):
                _report(signals, write_end, parent)
            os._exit(0)
        os.close(write_end)
        os.set_blocking(self._marks, False)

    def saw(self, signum: int) -> bool:
        """Whether the whole group got a signal that this process has got just now."""
        until = time.monotonic() + _LATE_S
        while True:
            self._read()
            for mark in self._seen:
                if mark[0] == signum:
                    self._seen.remove(mark)
                    return True
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._marks], [], [], left)[0]:
                return False

    def _read(self) -> None:
        now = time.monotonic()
        with contextlib.suppress(BlockingIOError):
            self._seen += [(signum, now) for signum in os.read(self._marks, 4096)]
        self._seen = [mark for mark in self._seen if now - mark[1] < _OLD_S]

    def close(self) -> None:
        """End the process."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._marks)


def _report(signals: Collection[int], write_end: int, parent: int) -> None:
    os.dup2(write_end, 0)
    os.closerange(1, os.sysconf("SC_OPEN_MAX"))  # nobody waits for our end of the script's pipes
    _die_with(parent)
    while True:
        os.write(0, bytes([signal.sigwait(signals)]))
