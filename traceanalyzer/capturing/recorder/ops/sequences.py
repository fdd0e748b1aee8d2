"""Of each thread, the numbers of its ops' signatures, in the order in which they ran.

A marker in the trace ties each thread to its line there, and a place in the sequence to one in the
trace: the n-th eager op of a thread in the trace finds its own.
"""

from __future__ import annotations

import base64
import itertools
import sys
import threading
from array import array
from typing import Any

from ..process.hooks import loaded

_MARKER = "traceanalyzer:eager"
_MARK_EVERY = 1000  # ops of a thread: how far a misalignment can reach


class Thread:
    """What is kept of a thread."""

    __slots__ = ("left", "name", "number", "sequence", "session")

    def __init__(self, number: int) -> None:
        self.number = number
        self.name = threading.current_thread().name
        self.session = -1
        self.sequence = array("I")
        self.left = 0  # ops until the next marker


class _Local(threading.local):
    """A thread's own record, made when it is first used."""

    def __init__(self, threads: list[Thread]) -> None:
        self.thread = Thread(len(threads))
        threads.append(self.thread)


class Sequences:
    """The sequences of all threads, while a session records."""

    def __init__(self) -> None:
        self._threads: list[Thread] = []
        self._session = -1
        self.local = _Local(self._threads)
        self.found: list[dict[str, Any]] = []  # those of sessions that have ended

    @property
    def is_on(self) -> bool:
        """Whether a session records."""
        return self._session >= 0

    def count(self) -> int:
        """Return how many ops were seen in the current session."""
        return sum(len(t.sequence) for t in list(self._threads) if t.session == self._session)

    def begin(self, index: int) -> None:
        """A session of that number begins."""
        self._session = index
        for thread in list(self._threads):
            thread.left = 0

    def end(self) -> None:
        """The session ends."""
        index, self._session = self._session, -1
        for thread in list(self._threads):
            if thread.session == index and len(thread.sequence):
                self.found.append(_encoded(thread, index))
            thread.sequence = array("I")

    def mark(self, thread: Thread) -> None:
        """Tie the thread to its line in the trace, and this place to one in its sequence."""
        if self._session < 0:
            thread.left = 0
            return
        if thread.session != self._session:
            thread.session = self._session
            thread.sequence = array("I")
        thread.left = _MARK_EVERY
        index = len(thread.sequence)
        traceme = loaded("tensorflow.python.profiler.internal._pywrap_traceme").TraceMe
        traceme(_MARKER, thread=thread.number, index=index).Stop()


def _encoded(thread: Thread, session: int) -> dict[str, Any]:
    runs = [(k, sum(1 for _ in group)) for k, group in itertools.groupby(thread.sequence)]
    return {
        "thread": thread.number,
        "name": thread.name,
        "session": session,
        "first_index": 0,
        "signatures": _packed(array("I", [k for k, _ in runs])),
        "counts": _packed(array("I", [n for _, n in runs])),
    }


def _packed(numbers: array[int]) -> str:
    if sys.byteorder != "little":
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode()
