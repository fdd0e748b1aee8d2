"""Marks steps in the trace of a program that does not mark them itself.

A step lasts from one call of a function to the next. The function is the first one that a thread
calls for the third time: TensorFlow traces a function in its first calls. The marker is
TensorFlow's own, an event with `step_num` and `_r` (python/profiler/trace.py), so that TensorBoard
shows step times too.

A program that marks steps itself does so with TensorFlow's class `Trace`. Every `tf.constant` makes
an object of that class too (framework/constant_op.py) and would take 0.5 µs longer, so that module
gets an unwatched copy.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any, Callable

from .hooks import Part, loaded
from .windows import label_of

_CALLS_BEFORE = 2
# The callback `TensorBoard` marks only the steps that it profiles (files of Keras 3 and 2).
_MARK_SOME = ("tensorboard.py", "callbacks.py")


class StepMarks(Part):
    def __init__(self, stepped: Callable[[], None] | None) -> None:
        """Prepare; `stepped` is called, if given, when the program marks a step's beginning."""
        super().__init__()
        self._stepped = stepped
        self._counts: dict[tuple[int, str], int] = {}
        self._leader: tuple[int, str] | None = None
        self._open: Any = None
        self._unfinished: list[Any] = []
        self._is_marking = False
        self._program_marks = False

    def install(self) -> None:
        """Notice from now on whether the program marks its steps itself."""
        from tensorflow.python.framework import constant_op
        from tensorflow.python.profiler import trace

        unwatched = ModuleType(trace.__name__)
        unwatched.__dict__.update(vars(trace), Trace=type("Trace", (), dict(vars(trace.Trace))))
        if getattr(constant_op, "trace", None) is trace:
            self.replace(constant_op, "trace", unwatched)
        self.before(trace.Trace, "__init__", self._made)

    def session_started(self) -> None:
        """Mark steps from now on; calls count from the program's first."""
        self._leader = None
        self._is_marking = True

    def session_stopped(self) -> None:
        """Leave the current step unmarked: its end is not recorded."""
        self._is_marking = False
        if self._open is not None:
            self._unfinished.append(self._open)  # kept: TensorFlow would write it when it is freed
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
            self._leader = key
        if key == self._leader:
            traceme = loaded("tensorflow.python.profiler.internal._pywrap_traceme").TraceMe
            self._open = traceme("step", step_num=count, _r=1, graph_type=label_of(name))

    def _made(self, *_: Any, **keywords: Any) -> None:
        """Note that a step is marked, by the program or by a callback of Keras."""
        if "step_num" in keywords:
            self._program_marks = True
            maker = os.path.basename(sys._getframe(2).f_code.co_filename)
            if self._stepped is not None and maker not in _MARK_SOME:
                self._stepped()
