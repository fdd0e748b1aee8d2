"""Marks steps in the trace of a program that does not mark them itself.

A step is what the program does from one call of a function to the next: of the first function that
a thread calls for the third time (the first calls are those in which TensorFlow traces it). The
marker is TensorFlow's own for a step, an event with `step_num` and `_r` (python/profiler/trace.py),
so that TensorBoard shows step times too.

Whether the program marks steps itself is seen at TensorFlow's class for that. Every `tf.constant`
makes an object of it too (framework/constant_op.py), which would take 0.5 µs longer: that module
keeps the class as it was.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Callable

from .hooks import Part, hide_frame, loaded
from .windows import label_of

if TYPE_CHECKING:
    from types import FrameType

_CALLS_BEFORE = 2
# The callback `TensorBoard` marks the steps that it profiles, and no others (Keras 3 and 2).
_MARK_SOME = ("tensorboard.py", "callbacks.py")


class StepMarks(Part):
    """Marks steps; see the module."""

    def __init__(self, stepped: Callable[[], None] | None) -> None:
        """Prepare; `stepped` is called, if given, when the program marks a step's beginning."""
        super().__init__()
        self._stepped = stepped
        self._counts: dict[tuple[int, str], int] = {}
        self._leader: tuple[int, str] | None = None
        self._make: Callable[[int], Any] | None = None  # a marker of the leader's step
        self._open: Any = None
        self._unfinished: list[Any] = []
        self._is_marking = False
        self._program_marks = False

    def install(self) -> None:
        """Learn from now on whether the program marks its steps itself."""
        from tensorflow.python.framework import constant_op
        from tensorflow.python.profiler import trace

        original = trace.Trace.__init__
        unwatched = ModuleType(trace.__name__)
        unwatched.__dict__.update(vars(trace), Trace=type("Trace", (), dict(vars(trace.Trace))))
        if getattr(constant_op, "trace", None) is trace:
            self.replace(constant_op, "trace", unwatched)

        def init(own: Any, *args: Any, **keywords: Any) -> None:
            if "step_num" in keywords:
                self._marked(sys._getframe(1))
            try:
                original(own, *args, **keywords)
            except BaseException as error:
                hide_frame(error)
                raise

        self.replace(trace.Trace, "__init__", init)

    def session_started(self) -> None:
        """Mark steps from now on; calls count from the program's first."""
        self._leader = None
        self._is_marking = True

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
        if not self._is_marking or self._program_marks:
            return
        if self._leader is None and count > _CALLS_BEFORE:
            self._leader, self._make = key, _marker_of(name)
        if key == self._leader and self._make is not None:
            self._open = self._make(count)

    def _marked(self, maker: FrameType) -> None:
        """Note that a step is marked, by the program or by a callback of Keras."""
        self._program_marks = True
        is_some = os.path.basename(maker.f_code.co_filename) in _MARK_SOME
        if self._stepped is not None and not is_some:
            self._stepped()


def _marker_of(name: str) -> Callable[[int], Any]:
    """Return what opens the marker of a step that begins with a function, given its number."""
    label = label_of(name)
    traceme = loaded("tensorflow.python.profiler.internal._pywrap_traceme").TraceMe
    return lambda count: traceme("step", step_num=count, _r=1, graph_type=label)
