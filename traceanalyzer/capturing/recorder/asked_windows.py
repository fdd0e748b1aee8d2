"""The windows that a user asks for, and which one settings mean."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional

from .auto_window import AutoWindow
from .window import LOOK_EVERY_S, MOST_HEAP_BYTES, Action, Begin, Clock, Load, Window, bound_reached

__all__ = ["StepsWindow", "TimeWindow", "WholeWindow", "window_of"]

_MARKED = ""  # stands for the steps that the program marks


class StepsWindow(Window):
    """From one step to another, counted from 1, both recorded.

    A step is a call of the function that is called most often, or, in a program that marks its
    steps with `tf.profiler.experimental.Trace(..., step_num=n)`, one of these, whatever the n.
    """

    def __init__(self, clock: Clock, first: int, last: int) -> None:
        """Begin with nothing counted.

        Args:
            clock: Tells the time.
            first: First step to record.
            last: Last step to record.
        """
        super().__init__(clock)
        self._first = first
        self._last = last
        self._leader: Optional[str] = None
        self._marked = 0

    def stepped(self) -> Action:
        """Count the steps that the program marks."""
        self._marked += 1
        if self._leader is None or self._leader == _MARKED:
            return self._reached(_MARKED, self._marked)
        return None

    def looked(self, load: Load) -> Action:
        """End the session before it harms the program."""
        bound = bound_reached(load, MOST_HEAP_BYTES, None) if self.recording else None
        return self._end(bound) if bound else None

    def why_nothing(self) -> str:
        """Say how far the program came."""
        if self._marked:
            return f"the program marked {self._marked} steps: step {self._first} was not reached"
        name, count = max(self._counts.items(), key=lambda item: item[1], default=("", 0))
        most = f"{name} was called most often, {count} times" if count else "no function was called"
        return f"{most}: step {self._first} was not reached"

    def _counted(self, label: str, count: int) -> Action:
        if self._marked and self._leader is None:
            return None
        if self._leader is None or self._leader == label:
            return self._reached(label, count)
        return None

    def _reached(self, label: str, count: int) -> Action:
        if self._leader is None and not self.over and count >= self._first:
            self._leader = label
            where = "step {} of the program" if label == _MARKED else f"call {{}} of {label}"
            return self._begin(f"from {where.format(count)}")
        if self.recording and count > self._last:
            what = "step" if label == _MARKED else "call"
            return self._end(f"to {what} {self._last}")
        return None


class TimeWindow(Window):
    """From some time after the import of TensorFlow, for some time."""

    def __init__(self, clock: Clock, after_s: float, for_s: float) -> None:
        """Wait for the import.

        Args:
            clock: Tells the time.
            after_s: How long after the import to begin.
            for_s: How long to record.
        """
        super().__init__(clock)
        self._after_s = after_s
        self._for_s = for_s
        self._opened: Optional[float] = None

    def opened(self) -> Action:
        """Begin to wait, or to record."""
        self._opened = self._clock()
        return self._begin_now() if self._after_s <= 0 else None

    def looked(self, load: Load) -> Action:
        """Begin or end when it is time."""
        if self._opened is None or self.over:
            return None
        if not self.recording:
            is_time = self._clock() >= self._opened + self._after_s
            return self._begin_now() if is_time else None
        bound = bound_reached(load, MOST_HEAP_BYTES, None)
        if self._elapsed() >= self._for_s:
            bound = f"for {self._for_s:g} s"
        return self._end(bound) if bound else None

    def next_look_s(self) -> Optional[float]:
        """Look at the beginning, and while recording."""
        if self.over or self._opened is None:
            return None
        if not self.recording:
            return max(0.0, self._opened + self._after_s - self._clock())
        return max(0.0, min(LOOK_EVERY_S, self._for_s - self._elapsed()))

    def why_nothing(self) -> str:
        """Say that the program was too short."""
        return f"the program used TensorFlow for less than {self._after_s:g} s"

    def _begin_now(self) -> Begin:
        return self._begin(f"from {self._after_s:g} s after the import of TensorFlow")


class WholeWindow(Window):
    """From the first use of TensorFlow on, until the recording is finished from outside."""

    def used(self) -> Action:
        """Record."""
        return self._begin("the block of code that was to be captured")

    def looked(self, load: Load) -> Action:
        """End the session before it harms the program."""
        bound = bound_reached(load, MOST_HEAP_BYTES, None) if self.recording else None
        return self._end(bound) if bound else None

    def why_nothing(self) -> str:
        """Say that nothing ran."""
        return "TensorFlow was not used in the block of code that was to be captured"


def window_of(
    asked: Mapping[str, Any], clock: Clock, is_training: Callable[[], bool] = lambda: False
) -> Window:
    """Return the window that the settings ask for."""
    if asked["kind"] == "steps":
        return StepsWindow(clock, int(asked["first"]), int(asked["last"]))
    if asked["kind"] == "whole":
        return WholeWindow(clock)
    if asked["kind"] == "time":
        return TimeWindow(clock, float(asked["after_s"]), float(asked["for_s"]))
    return AutoWindow(clock, is_training)
