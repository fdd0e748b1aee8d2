"""When to record: decisions without effects, so that they can be told from the outside.

A window is told of calls of functions, of steps, and now and then of the time and of what the
recording has grown to; it answers with what to do.

The bounds of the window that is taken when nothing is asked for come from measurements at host
tracer level 3 (TensorFlow 2.18 and 2.21, two cores). What TensorFlow holds in memory of a running
session ends as a file of a quarter of that size, and the conversion at its end takes 3.5 times the
memory and 20 s a GB: a loop of 100,000 rounds in a graph is 0.9 GB of memory, a 205 MB file and
18 s. So a session ends when the heap has grown by 512 MB: its file has at most about 150 MB; and by
64 MB where it shows no steps, which most often is the preparation of data, element by element: a
map over 300,000 elements then takes 1.17 times as long as alone, with 256 MB 1.3 times. What the
heap grows by while a function is traced and first called is the program's graphs, 530 MB of Keras'
MobileNetV2, and not counted. The tensors of a program count, since nothing tells them apart: if the
trace that was written is too small for what was counted, recording begins again, with more allowed.
An eager op takes 143 bytes of the file, a training step of a small convolutional network 30 kB.
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
LOOK_FOR_EAGER_S = 1.0
HEAP_BYTES = 512 << 20
SET_UP_BYTES = 64 << 20  # of a session that shows no steps
GRAPHS_BYTES = 512 << 20  # not counted, at most
EAGER_OPS = 200_000
EAGER_LOOP_OPS = 50_000  # of a session that shows no function: each op takes a third longer
LEAST_FREE = 0.1  # of the machine's memory
NEXT_CALL = 3  # of one function: a step; the first calls are those that trace it
STEADY_CALLS, SILENT_S = 5, 1.0
STEADY_EAGER_OPS = 1_000  # that are like earlier ones: a loop
# A session that begins with steps ends after so many calls and seconds. Another one goes on for
# some seconds of steps, and for some steps, unless they take too long.
NEXT_CALLS, LEAST_STEPS_S = 100, 2.0
STEPS, STEPS_S, LONGEST_STEPS_S = 3, 10.0, 60.0
LONGEST_WAIT_S = 300.0

_SET_UP, _EAGER, _FUNCTION, _FIT = range(4)  # ranks of what a session shows

# Keras 3 calls all its functions so, whether they train, evaluate or predict.
_KERAS_STEP = re.compile(r"_(?:one|multi)_step_on_")
_DEFINITION = re.compile(r"__(?:inference|forward|backward)_(.+)_\d+")


class Load(NamedTuple):
    """What a running session has come to.

    Attributes:
        eager_ops: Eager ops since its beginning; without a session, since the last one's end.
        signatures: Distinct eager ops of the whole program.
        heap_bytes: Growth of the heap since then.
        free: Share of the machine's memory that is available.
        is_tracing: Some thread is tracing a function.
    """

    eager_ops: int = 0
    heap_bytes: int = 0
    free: float = 1.0
    signatures: int = 0
    is_tracing: bool = False


class Begin(NamedTuple):
    """Begin a session; what one under way holds is not worth keeping."""

    reason: str


class End(NamedTuple):
    """End the session and keep it."""

    reason: str


Action = Union[Begin, End, None]
Clock = Callable[[], float]

_MARKED = ""  # stands for the steps that the program marks
_HEAP_PER_BYTE = 10  # of a trace it is 4; of one that hardly grew the heap, far more
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

    @property
    def awaits_eager_ops(self) -> bool:
        """Whether eager ops are to be counted although nothing is recorded."""
        return False

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
            label = self._labels[definition] = self._label_of(definition)
        count = self._counts[label] = self._counts.get(label, 0) + 1
        return self._counted(label, count)

    def stepped(self) -> Action:
        """The program itself marks the beginning of a step."""
        return None

    def looked(self, load: Load) -> Action:
        """Some time has passed, after which a look was asked for."""
        raise NotImplementedError

    def written(self, size: int) -> Action:  # noqa: ARG002 - for those who judge by it
        """The session that has ended has left a trace of some bytes, 0 for none."""
        return None

    def next_look_s(self) -> Optional[float]:
        """Return in how many seconds to look next; None for not before something happens."""
        return LOOK_EVERY_S if self.recording else None

    def why_nothing(self) -> str:
        """Say why nothing was recorded of a program that used TensorFlow."""
        return "nothing was recorded"

    def _label_of(self, definition: str) -> str:
        """Return the name under which calls of a function are counted."""
        found = _DEFINITION.fullmatch(definition)
        return found.group(1) if found else definition

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
    """The whole of a short program; of a long one, a stretch of its steps.

    Recording begins at once, and goes on until steps are found: a function that is called again
    and again, the training of Keras' `fit`, or, where no function repeats, an eager loop. What
    comes before is set-up. It is part of the recording where it is short; where it fills its own,
    smaller share of memory, it becomes a trace of its own, and recording begins again with the
    steps; where it just takes long, it is dropped then. Training outranks other functions, and
    these outrank eager loops: what ranks higher is recorded too if it comes later.
    """

    def __init__(self, clock: Clock, is_training: Callable[[], bool] = lambda: False) -> None:
        """Begin with nothing counted.

        Args:
            clock: Tells the time.
            is_training: Tells whether the call that is about to come is made by Keras' `fit`.
        """
        super().__init__(clock)
        self._is_training = is_training
        self._ranks: Dict[str, int] = {}  # of each function that was called again and again
        self._rank = _SET_UP  # of what is recorded, or was last
        self._before: Dict[str, int] = {}  # counts when the steps began
        self._steps_at = 0.0
        self._begins_with_steps = False
        self._called_at = 0.0  # when one of the functions that rank so was last called
        self._allowed_bytes = 0  # once a trace was too small for the memory; 0 before
        self._ended_at_bytes = 0  # the last session, if for its memory
        self._heap_bytes = self._graphs_bytes = self._eager_ops = 0  # at the last look
        self._is_first_call = False  # the last call of a function was its first
        self._signatures = 0  # distinct ones at the last look, and the ops up to the newest
        self._ops_before = 0

    @property
    def awaits_eager_ops(self) -> bool:
        """Whether an eager loop would begin a session."""
        return not (self.over or self.recording or self._rank != _SET_UP)

    def used(self) -> Action:
        """Record from the first op on."""
        return self._begin("from the program's first use of TensorFlow")

    def looked(self, load: Load) -> Action:
        """Begin or end with an eager loop, or end the session if it has shown enough."""
        if not self.recording:
            is_loop = self.awaits_eager_ops and load.eager_ops >= STEADY_EAGER_OPS
            return self._begin_with(_EAGER, "from where eager ops repeat") if is_loop else None
        if self._rank == _SET_UP and self._repeats(load):
            self._found(_EAGER)
        load = load._replace(heap_bytes=self._counted_bytes(load))
        most = self._allowed_bytes or (SET_UP_BYTES if self._rank == _SET_UP else HEAP_BYTES)
        ops = EAGER_OPS if self._rank > _EAGER else EAGER_LOOP_OPS
        reason = _bound_reached(load, most, ops) or self._enough()
        if reason is None:
            return None
        self._ended_at_bytes = most if load.heap_bytes >= most else 0
        return self._close(reason)

    def written(self, size: int) -> Action:
        """Go on where the memory was the program's own: the trace is small."""
        ended_at = self._ended_at_bytes
        if size * _HEAP_PER_BYTE >= ended_at:
            return None
        self._allowed_bytes = HEAP_BYTES if ended_at < HEAP_BYTES else 4 * ended_at
        self.over = False
        reason = "from where the program had taken much memory"
        return (
            self._begin(reason) if self._rank == _SET_UP else self._begin_with(self._rank, reason)
        )

    def next_look_s(self) -> Optional[float]:
        """Look while recording, and now and then while an eager loop may begin."""
        return LOOK_FOR_EAGER_S if self.awaits_eager_ops else super().next_look_s()

    def why_nothing(self) -> str:
        """Say so."""
        return "TensorFlow was imported, but no op was run"

    def _begin(self, reason: str) -> Begin:
        self._heap_bytes = self._graphs_bytes = self._ended_at_bytes = 0
        return super()._begin(reason)

    def _counted_bytes(self, load: Load) -> int:
        """Return by how much the heap has grown, but for the graphs of the program."""
        is_first_call = self._is_first_call and load.eager_ops == self._eager_ops
        if load.is_tracing or is_first_call:
            self._graphs_bytes += max(0, load.heap_bytes - self._heap_bytes)
        self._heap_bytes, self._eager_ops = load.heap_bytes, load.eager_ops
        return load.heap_bytes - min(self._graphs_bytes, GRAPHS_BYTES)

    def _label_of(self, definition: str) -> str:
        # Training and evaluation are functions of one name.
        return definition if _KERAS_STEP.search(definition) else super()._label_of(definition)

    def _counted(self, label: str, count: int) -> Action:
        self._is_first_call = count == 1
        rank = self._ranks.get(label)
        is_new = rank is None
        if rank is None or rank > self._rank:
            times = count - self._before.get(label, 0)
            if times < (NEXT_CALL if self.recording else NEXT_CALL - 1):
                return None
            rank = self._ranks[label] = self._rank_of(label)
        is_better = rank > self._rank
        if rank == self._rank:
            is_better = self.recording and is_new and not self._is_steady()
            self._called_at = self._clock()
        if not is_better:
            return None
        if self.recording and self._elapsed() < WHOLE_S:
            self._found(rank)
            return None
        return self._begin_with(rank, f"from call {count} of {super()._label_of(label)}")

    def _rank_of(self, label: str) -> int:
        is_fit = "_train_function_" in label or (_KERAS_STEP.search(label) and self._is_training())
        return _FIT if is_fit else _FUNCTION

    def _repeats(self, load: Load) -> bool:
        """Return whether eager ops have long been the same as before."""
        if load.signatures > self._signatures:
            self._signatures, self._ops_before = load.signatures, load.eager_ops
        return load.eager_ops - self._ops_before >= STEADY_EAGER_OPS

    def _begin_with(self, rank: int, reason: str) -> Begin:
        begun = self._begin(reason)
        self._found(rank)
        self._begins_with_steps = True
        return begun

    def _found(self, rank: int) -> None:
        self._rank = rank
        self._before = dict(self._counts)
        self._steps_at = self._called_at = self._clock()

    def _enough(self) -> Optional[str]:
        """Say for how long was recorded, if that is enough."""
        elapsed, steps_s, calls = self._elapsed(), self._clock() - self._steps_at, self._calls()
        if self._rank == _SET_UP:
            is_late = elapsed >= LONGEST_WAIT_S
            return f"for {elapsed:.0f} s, in which nothing repeated" if is_late else None
        is_enough = self._begins_with_steps and steps_s >= LEAST_STEPS_S and calls >= NEXT_CALLS
        if elapsed >= WHOLE_S and steps_s >= STEPS_S:
            is_enough = self._rank == _EAGER or calls >= STEPS or steps_s >= LONGEST_STEPS_S
        if is_enough and self._rank != _EAGER and not self._is_steady():
            self._found(_SET_UP)  # it was a few calls of some function of the set-up
            return None
        return f"for {elapsed:.0f} s" if is_enough else None

    def _is_steady(self) -> bool:
        """Return whether functions are still called as they were."""
        now = self._clock()
        is_silent = now - self._called_at > max(SILENT_S, (now - self._steps_at) / 2)
        return self._calls() >= STEADY_CALLS or not is_silent

    def _calls(self) -> int:
        """Return how often the function called most often was called since the steps began."""
        before, counts = self._before, list(self._counts.items())
        ranked = (n - before.get(k, 0) for k, n in counts if self._ranks.get(k) == self._rank)
        return max(ranked, default=0)

    def _close(self, reason: str) -> End:
        ended = self._end(reason)
        self.over = self._rank == _FIT
        return ended


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


def _bound_reached(load: Load, heap_bytes: int, eager_ops: Optional[int]) -> Optional[str]:
    """Say which bound a session has reached."""
    if eager_ops is not None and load.eager_ops >= eager_ops:
        return f"for {eager_ops:,} eager ops"
    if load.heap_bytes >= heap_bytes:
        return f"until it held {heap_bytes >> 20} MB in memory"
    if load.free < LEAST_FREE:
        return f"until less than {LEAST_FREE:.0%} of the memory was free"
    return None
