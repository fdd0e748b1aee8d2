"""When to record: decisions without effects, so that they can be told from the outside.

A window is told of calls of functions, of steps, and now and then of the time and of what the
recording has grown to; it answers with what to do.

The bounds of the window that is taken when nothing is asked for come from measurements at host
tracer level 3 (TensorFlow 2.18 and 2.21, two cores). What TensorFlow holds in memory of a running
session ends as a file of a quarter of that size, and the conversion at its end takes 3.5 times the
memory and 20 s a GB: a loop of 100,000 rounds in a graph is 0.9 GB of memory, a 205 MB file and
18 s. So a session ends when the heap has grown by 512 MB: its file has at most about 150 MB. An
eager op takes 143 bytes of the file, a training step of a small convolutional network 30 kB.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Union

__all__ = [
    "Action",
    "AutoWindow",
    "Begin",
    "End",
    "Load",
    "StepsWindow",
    "TimeWindow",
    "WholeWindow",
    "Window",
    "window_of",
]

WHOLE_S = 20.0  # a program that ends within this is recorded whole
LOOK_EVERY_S = 0.25
HEAP_BYTES = 512 << 20
EAGER_OPS = 200_000
LEAST_FREE = 0.1  # of the machine's memory
STEADY_CALLS = 10  # of one function: the program has come to its work
NEXT_CALL, NEXT_CALLS, NEXT_S = 3, 100, 20.0
STEADY_EAGER_OPS = 2_000
LONGEST_WAIT_S = 300.0
PLENTY_BYTES = 32 << 20

_DEFINITION = re.compile(r"__(?:inference|forward|backward)_(.+)_\d+")


class Load(NamedTuple):
    """What a running session has come to.

    Attributes:
        eager_ops: Eager ops since its beginning.
        heap_bytes: Growth of the heap since then.
        free: Share of the machine's memory that is available.
    """

    eager_ops: int = 0
    heap_bytes: int = 0
    free: float = 1.0


class Begin(NamedTuple):
    """Begin a session; what one under way holds is not worth keeping."""

    reason: str


class End(NamedTuple):
    """End the session and keep it."""

    reason: str


Action = Union[Begin, End, None]
Clock = Callable[[], float]

_MARKED = ""  # stands for the steps that the program marks
_MOST_HEAP_BYTES = 2 << 30  # TensorFlow writes no trace of more than 2 GiB


class Window:
    """What all windows have: they count, and are over at some time.

    Attributes:
        over: Nothing more will be recorded.
        recording: A session is under way.
    """

    def __init__(self, clock: Clock) -> None:
        """Begin with nothing counted.

        Args:
            clock: Tells the time.
        """
        self.over = False
        self.recording = False
        self._clock = clock
        self._began = 0.0
        self._counts: Dict[str, int] = {}
        self._labels: Dict[str, str] = {}

    def opened(self) -> Action:
        """TensorFlow has been imported."""
        return None

    def used(self) -> Action:
        """TensorFlow is about to make its devices, and to run its first op."""
        return None

    def called(self, definition: str) -> Action:
        """A function is about to be called: count it as its Python function's."""
        label = self._labels.get(definition)
        if label is None:
            found = _DEFINITION.fullmatch(definition)
            label = self._labels[definition] = found.group(1) if found else definition
        count = self._counts[label] = self._counts.get(label, 0) + 1
        return self._counted(label, count)

    def stepped(self) -> Action:
        """The program itself marks the beginning of a step."""
        return None

    def looked(self, load: Load) -> Action:
        """Some time has passed, after which a look was asked for."""
        raise NotImplementedError

    def written(self, size: int) -> None:
        """The session that has ended has left a trace of some bytes."""

    def next_look_s(self) -> Optional[float]:
        """Return in how many seconds to look next; None for not before something happens."""
        return LOOK_EVERY_S if self.recording else None

    def why_nothing(self) -> str:
        """Say why nothing was recorded of a program that used TensorFlow."""
        return "nothing was recorded"

    def _counted(self, label: str, count: int) -> Action:  # noqa: ARG002 - for those who count
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


class AutoWindow(Window):
    """The whole of a short program; of a long one, a stretch of its steady work.

    Recording begins at once. A program that ends within 20 s is recorded whole. After that, or when
    a bound is reached, the session is kept if it shows the program at its work: ten calls of one
    function, or eager ops and no functions. If it does not (imports, loading of data, the first
    calls, in which functions are traced), it goes on until some function is called for the third
    time; then it is dropped, and a new one takes its place for 20 s or 100 calls of that function.
    """

    def __init__(self, clock: Clock) -> None:
        """Begin with nothing counted."""
        super().__init__(clock)
        self._before: Dict[str, int] = {}  # counts when the session began
        self._leader: Optional[str] = None  # the function whose calls end the session
        self._last_call = 0
        self._is_awaiting = False  # of the third call of some function
        self._late_eager_ops: Optional[int] = None
        self._until_s = WHOLE_S

    def used(self) -> Action:
        """Record from the first op on."""
        return self._begin("from the program's first use of TensorFlow")

    def looked(self, load: Load) -> Action:
        """End the session if it has reached a bound."""
        if not self.recording:
            return None
        elapsed = self._elapsed()
        bound = _bound_reached(load, HEAP_BYTES, EAGER_OPS)
        if bound:
            return self._close(bound, is_steady=self._is_steady(load))
        if elapsed < self._until_s:
            return None
        is_due = self._leader is not None or not self._is_awaiting
        if is_due and self._is_steady(load):
            return self._close(f"for {self._until_s:.0f} s", is_steady=True)
        return self._wait_for_more(elapsed, load)

    def written(self, size: int) -> None:
        """Want no more where much was recorded: so many ops are the program's work."""
        self.over = self.over or size >= PLENTY_BYTES

    def why_nothing(self) -> str:
        """Say so."""
        return "TensorFlow was imported, but no op was run"

    def _counted(self, label: str, count: int) -> Action:
        if self._leader is not None:
            if label == self._leader and count > self._last_call and self.recording:
                return self._close(f"for {NEXT_CALLS} calls of {label}", is_steady=True)
        elif self._is_awaiting and count >= NEXT_CALL:
            self._leader = label
            self._last_call = count + NEXT_CALLS - 1
            if self.recording and count - self._before.get(label, 0) > NEXT_CALL:
                # Its calls are slow rather than new: they are what is to be shown.
                self._until_s = self._elapsed() + NEXT_S
                return None
            return self._begin_anew(f"from call {count} of {label}", NEXT_S)
        return None

    def _wait_for_more(self, elapsed: float, load: Load) -> Action:
        self._is_awaiting = True
        if not self._counts:
            if self._late_eager_ops is None:
                self._late_eager_ops = load.eager_ops
            if load.eager_ops >= self._late_eager_ops + STEADY_EAGER_OPS:
                return self._begin_anew("from where eager ops began to follow each other", NEXT_S)
        if elapsed >= LONGEST_WAIT_S:
            return self._close(f"for {elapsed:.0f} s, in which nothing repeated", is_steady=False)
        return None

    def _begin_anew(self, reason: str, until_s: float) -> Begin:
        self._before = dict(self._counts)
        self._until_s = until_s
        self._is_awaiting = False
        return self._begin(reason)

    def _close(self, reason: str, *, is_steady: bool) -> End:
        ended = self._end(reason)
        self.over = is_steady
        self._is_awaiting = not is_steady
        return ended

    def _is_steady(self, load: Load) -> bool:
        if self._leader is not None:
            return True
        if not self._counts:
            return load.eager_ops >= STEADY_EAGER_OPS
        before = self._before
        return any(n - before.get(k, 0) >= STEADY_CALLS for k, n in list(self._counts.items()))


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
        bound = _bound_reached(load, _MOST_HEAP_BYTES, None) if self.recording else None
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
        bound = _bound_reached(load, _MOST_HEAP_BYTES, None)
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
        bound = _bound_reached(load, _MOST_HEAP_BYTES, None) if self.recording else None
        return self._end(bound) if bound else None

    def why_nothing(self) -> str:
        """Say that nothing ran."""
        return "TensorFlow was not used in the block of code that was to be captured"


def window_of(asked: Mapping[str, Any], clock: Clock) -> Window:
    """Return the window that the settings ask for."""
    if asked["kind"] == "steps":
        return StepsWindow(clock, int(asked["first"]), int(asked["last"]))
    if asked["kind"] == "whole":
        return WholeWindow(clock)
    if asked["kind"] == "time":
        return TimeWindow(clock, float(asked["after_s"]), float(asked["for_s"]))
    return AutoWindow(clock)


def _bound_reached(load: Load, heap_bytes: int, eager_ops: Optional[int]) -> Optional[str]:
    """Say which bound a session has reached."""
    if eager_ops is not None and load.eager_ops >= eager_ops:
        return f"for {eager_ops:,} eager ops"
    if load.heap_bytes >= heap_bytes:
        return f"until it held {heap_bytes >> 20} MB in memory"
    if load.free < LEAST_FREE:
        return f"until less than {LEAST_FREE:.0%} of the memory was free"
    return None
