"""Marks steps in the trace of a program that does not mark them itself.

A step is what the program does from one call of a function to the next: of the first function that
a thread calls for the third time (the first calls are those in which TensorFlow traces it). The
marker is TensorFlow's own for a step, an event with `step_num` and `_r` (python/profiler/trace.py),
so that TensorBoard shows step times too.

Whether the program marks steps itself is seen at TensorFlow's class for that. Every `tf.constant`
makes an object of it too (framework/constant_op.py). So that ops cost what they cost, outside of
sessions no more than some thousands are looked at: the first, and those after the first calls of a
function, where a program that marks its steps does so. For one that begins to later, a session
marks nothing before the second call that it sees.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from typing import TYPE_CHECKING, Any, Callable

from ..process.hooks import Part, hide_frame, loaded

if TYPE_CHECKING:
    from types import FrameType

_CALLS_BEFORE = 2
# The callback `TensorBoard` marks the steps that it profiles, and no others (Keras 3 and 2).
_MARK_SOME = ("tensorboard.py", "callbacks.py")
_LOOKED_AT = 10_000  # each takes a third of a microsecond
_DEFINITION = re.compile(r"__(?:inference|forward|backward)_(.+)_\d+")


class StepMarks(Part):
    """Marks steps; see the module."""

    def __init__(self, stepped: Callable[[], None] | None) -> None:
        """Prepare; `stepped` is called, if given, when the program marks a step's beginning."""
        super().__init__()
        self._stepped = stepped
        self._class: Any = None  # of TensorFlow, of whose objects steps are
        self._seen: set[tuple[int, str]] = set()  # who called what in this session
        self._counts: dict[tuple[int, str], int] = {}
        self._leader: tuple[int, str] | None = None
        self._make: Callable[[int], Any] | None = None  # a marker of the leader's step
        self._open: Any = None
        self._unfinished: list[Any] = []
        self._is_marking = False
        self._program_marks = False
        self._is_watching = False
        self._replacement: Any = None  # of the class's `__init__`
        self._switching = threading.Lock()  # by one thread at a time; others need not wait
        self._left = _LOOKED_AT  # how many more objects are looked at, outside of sessions

    def install(self) -> None:
        """Learn from now on whether the program marks its steps itself."""
        from tensorflow.python.profiler import trace

        self._class = trace.Trace  # kept: the program may drop TensorFlow, and none is made twice
        self._watch()

    def uninstall(self) -> None:
        """Put everything back."""
        self._is_watching = False
        super().uninstall()

    def session_started(self) -> None:
        """Mark steps from now on; calls count from the program's first."""
        self._leader = None
        self._seen = set()
        self._is_marking = True
        self._watch_anew()

    def session_stopped(self) -> None:
        """Leave the step under way unmarked: nobody saw its end."""
        self._is_marking = False
        if self._open is not None:
            self._unfinished.append(self._open)  # kept: as it is freed, it would be written
            self._open = None

    def ended(self, name: str, thread: int) -> None:
        """Mark the end of a step, if the next call, of that function by that thread, ends it."""
        if self._open is not None and self._leader == (thread, name):
            self._open.Stop()
            self._open = None

    def began(self, name: str, thread: int) -> None:
        """Mark the beginning of a step, if the next call is one."""
        key = (thread, name)
        count = self._counts[key] = self._counts.get(key, 0) + 1
        if count <= _CALLS_BEFORE:
            self._watch_anew()
        if not self._is_marking or self._program_marks:
            return
        if self._stepped is None and key not in self._seen:
            self._seen.add(key)
            return
        if self._leader is None and count > _CALLS_BEFORE:
            self._leader, self._make = key, _marker_of(name)
        if key == self._leader and self._make is not None:
            self._open = self._make(count)

    def _watch_anew(self) -> None:
        """Look at the next objects, however many were looked at before."""
        self._left = _LOOKED_AT
        self._watch()

    def _watch(self) -> None:
        """Look at the next objects of TensorFlow's class, if any are left to be looked at."""
        if self._class is None or self._program_marks or self._left <= 0:
            return  # not installed, or all is known, or enough were looked at
        if self._is_watching or not self._switching.acquire(blocking=False):
            return
        original = self._class.__init__

        def init(trace: Any, *args: Any, **keywords: Any) -> None:
            self._looked_at("step_num" in keywords, sys._getframe(1))
            try:
                original(trace, *args, **keywords)
            except BaseException as error:
                hide_frame(error)
                raise

        self.replace(self._class, "__init__", init)
        self._replacement = init
        self._is_watching = True
        self._switching.release()

    def _looked_at(self, is_step: bool, maker: FrameType) -> None:  # noqa: FBT001
        """Note an object of the class; stop once it is a step, or there were enough."""
        self._program_marks = self._program_marks or is_step
        if self._stepped is not None:
            if is_step and os.path.basename(maker.f_code.co_filename) not in _MARK_SOME:
                self._stepped()
            return
        if not self._is_marking:
            self._left -= 1
        is_enough = self._program_marks or self._left <= 0
        # Where another has replaced it since, ours stays beneath.
        if is_enough and self._class.__init__ is self._replacement:
            if not self._switching.acquire(blocking=False):
                return
            if self._is_watching:
                self.uninstall()
            self._switching.release()


def _marker_of(name: str) -> Callable[[int], Any]:
    """Return what opens the marker of a step that begins with a function, given its number."""
    found = _DEFINITION.fullmatch(name)
    label = found.group(1) if found else name
    traceme = loaded("tensorflow.python.profiler.internal._pywrap_traceme").TraceMe
    return lambda count: traceme("step", step_num=count, _r=1, graph_type=label)
