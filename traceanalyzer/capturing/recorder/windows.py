"""Decides when to record, without side effects.

A window's methods are called before functions, and at intervals. Each returns whether to begin or
end a session. These are the windows that a user can request; `auto_window` is the default.
"""

from __future__ import annotations

import re
from typing import Callable, NamedTuple, Union

LOOK_EVERY_S = 0.25
LEAST_FREE = 0.1  # of the machine's memory
MOST_HEAP_BYTES = 2 << 30  # TensorFlow writes no trace of more than 2 GiB
_DEFINITION = re.compile(r"__(?:inference|forward|backward)_(.+)_\d+")


class Load(NamedTuple):
    """Measurements of a running session and of the program."""

    eager_ops: int = 0  # since its beginning; without a session, since the end of the last one
    heap_bytes: int = 0  # growth of the heap since then
    free: float = 1.0  # share of the machine's memory that is available
    signatures: int = 0  # distinct eager ops of the whole program
    is_tracing: bool = False  # some thread is tracing a function


class Begin(NamedTuple):
    """An action: drop the current session and begin a new one."""

    reason: str


class End(NamedTuple):
    """An action: end the session and write its trace."""

    reason: str


Action = Union[Begin, End, None]
Clock = Callable[[], float]


def label_of(definition: str) -> str:
    """Return the name of the Python function that a definition was traced from."""
    found = _DEFINITION.fullmatch(definition)
    return found.group(1) if found else definition


def bound_reached(load: Load, heap_bytes: int, eager_ops: int | None) -> str | None:
    """Return the limit that a session has reached, in words, or None."""
    if eager_ops is not None and load.eager_ops >= eager_ops:
        return f"for {load.eager_ops:,} eager ops"
    if load.heap_bytes >= heap_bytes:
        return f"until memory use had grown by {heap_bytes >> 20} MB"
    if load.free < LEAST_FREE:
        return f"until less than {LEAST_FREE:.0%} of the memory was free"
    return None


class Window:
    """The base class of all windows."""

    counts_on = False  # whether calls are counted after the last recording
    awaits_eager_ops = False  # whether to count eager ops while nothing is recorded

    def __init__(self, clock: Clock) -> None:
        self.over = False  # nothing more will be recorded
        self.recording = False  # a session is running
        self._clock = clock
        self._began = 0.0
        self._counts: dict[str, int] = {}
        self._labels: dict[str, str] = {}

    def used(self) -> Action:
        """Note that TensorFlow is about to create its devices and run its first op."""
        return None

    def called(self, definition: str) -> Action:
        """Count a call of a Python function; its graph is about to run."""
        label = self._labels.get(definition)
        if label is None:
            label = self._labels[definition] = self._label_of(definition)
        count = self._counts[label] = self._counts.get(label, 0) + 1
        return self._counted(label, count)

    def looked(self, load: Load) -> Action:
        """End a session that has become too large."""
        bound = bound_reached(load, MOST_HEAP_BYTES, None) if self.recording else None
        return self._end(bound) if bound else None

    def written(self, size: int) -> Action:  # noqa: ARG002
        """Note that the last session wrote a trace of `size` bytes, 0 for none."""
        return None

    def next_look_s(self) -> float | None:
        """Return the seconds until the next call of `looked`; None to wait for another event."""
        return LOOK_EVERY_S if self.recording else None

    def why_nothing(self) -> str:
        """Return why nothing was recorded, although the program imported TensorFlow."""
        raise NotImplementedError

    def is_too_short(self) -> bool:
        """Return whether the current session is too short to be worth writing."""
        return False

    def missed(self) -> str | None:
        """Return a note if later calls of a function took longer than the recording, or None."""
        return None

    def _label_of(self, definition: str) -> str:
        return label_of(definition)

    def _counted(self, label: str, count: int) -> Action:  # noqa: ARG002
        return None

    def _begin(self, reason: str) -> Begin:
        self._began = self._clock()
        self.recording = True
        return Begin(reason)

    def _end(self, reason: str) -> End:
        self.recording = False
        self.over = True
        return End(reason)

    def _elapsed(self) -> float:
        return self._clock() - self._began


class WholeWindow(Window):
    """Records everything from the first use of TensorFlow."""

    def used(self) -> Action:
        return self._begin("the captured block of code")

    def why_nothing(self) -> str:
        return "TensorFlow was not used in the captured block of code"


class TimeWindow(Window):
    """Records for `for_s` seconds, starting `after_s` seconds after the import of TensorFlow."""

    def __init__(self, clock: Clock, after_s: float, for_s: float) -> None:
        super().__init__(clock)
        self._after_s, self._for_s = after_s, for_s
        self._begin_at = clock() + after_s

    def used(self) -> Action:
        return None if self.recording or self.over else self._begin_if_due()

    def looked(self, load: Load) -> Action:
        if self.over:
            return None
        if not self.recording:
            return self._begin_if_due()
        is_over = self._elapsed() >= self._for_s
        return self._end(f"for {self._for_s:g} s") if is_over else super().looked(load)

    def next_look_s(self) -> float | None:
        if self.over:
            return None
        if self.recording:
            return max(0.0, min(LOOK_EVERY_S, self._for_s - self._elapsed()))
        return max(0.0, self._begin_at - self._clock())

    def why_nothing(self) -> str:
        return f"the program used TensorFlow for less than {self._after_s:g} s"

    def _begin_if_due(self) -> Action:
        if self._clock() < self._begin_at:
            return None
        return self._begin(f"from {self._after_s:g} s after the import of TensorFlow")


class StepsWindow(Window):
    """Records a range of steps, which are calls of the most-called function, counted from 1."""

    def __init__(self, clock: Clock, first: int, last: int) -> None:
        super().__init__(clock)
        self._first, self._last = first, last
        self._leader: str | None = None

    def why_nothing(self) -> str:
        name, count = max(self._counts.items(), key=lambda item: item[1], default=("", 0))
        times = "once" if count == 1 else f"{count} times"
        most = f"{name}, the most-called function, ran only {times}" if count else "no function ran"
        return f"step {self._first} was not reached: {most}"

    def _counted(self, label: str, count: int) -> Action:
        if self._leader is None and not self.over and count >= self._first:
            self._leader = label
            return self._begin(f"from call {count} of {label}")
        if self._leader == label and self.recording and count > self._last:
            return self._end(f"to call {self._last}")
        return None
