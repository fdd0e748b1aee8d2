"""Marks steps in the trace of a program that does not mark them itself.

A step is what the program does from one call of a function to the next: of the first function that
a thread calls for the third time (the first calls are those in which TensorFlow traces it). The
marker is TensorFlow's own for a step, an event with `step_num` and `_r` (python/profiler/trace.py),
so that TensorBoard shows step times too.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Optional, Tuple

from .loaded import loaded
from .patches import Patches
from .tracebacks import unseen

__all__ = ["StepMarks"]

_CALLS_BEFORE = 2
_DEFINITION = re.compile(r"__(?:inference|forward|backward)_(.+)_\d+")


class StepMarks:
    """Marks steps; see the module."""

    def __init__(self) -> None:
        """Prepare; nothing is marked yet."""
        self._patches = Patches()
        self._counts: Dict[Tuple[int, str], int] = {}
        self._leader: Optional[Tuple[int, str]] = None
        self._open: Any = None
        self._unfinished: List[Any] = []
        self._is_marking = False
        self._program_marks = False

    def install(self) -> None:
        """Learn of steps that the program marks itself: then ours are none."""
        from tensorflow.python.profiler import trace  # noqa: PLC0415 - the program's

        self._patches.replace(trace.Trace, "__init__", self._watched(trace.Trace.__init__))

    def uninstall(self) -> None:
        """Put everything back."""
        self._patches.undo()

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
        """Mark the end of a step, if the call that is about to come ends it.

        Args:
            name: Definition of the function that is about to be called.
            thread: Number of the calling thread.
        """
        if self._open is not None and self._leader == (thread, name):
            self._open.Stop()
            self._open = None

    def began(self, name: str, thread: int) -> None:
        """Mark the beginning of a step, if that is what the call that is about to come is.

        Args:
            name: Definition of the function that is about to be called.
            thread: Number of the calling thread.
        """
        key = (thread, name)
        count = self._counts[key] = self._counts.get(key, 0) + 1
        if not self._is_marking or self._program_marks:
            return
        if self._leader is None and count > _CALLS_BEFORE:
            self._leader = key
        if key != self._leader:
            return
        found = _DEFINITION.fullmatch(name)
        label = found.group(1) if found else name
        traceme = loaded("tensorflow.python.profiler.internal._pywrap_traceme").TraceMe
        self._open = traceme("step", step_num=count, _r=1, graph_type=label)

    def _watched(self, original: Callable[..., None]) -> Callable[..., None]:
        def init(trace: Any, *args: Any, **keywords: Any) -> None:  # noqa: ANN401
            if "step_num" in keywords:
                self._program_marks = True
            with unseen:
                original(trace, *args, **keywords)

        return init
