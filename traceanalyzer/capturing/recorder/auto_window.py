"""The default window: finds the steps of a program while it runs.

The limits come from measurements at host tracer level 3 (TensorFlow 2.18 and 2.21, two cores). A
session's file is a quarter of the size of its memory. Writing the file takes 20 s per GB of memory,
and needs 3.5 times that memory. So a session ends when the heap has grown by 512 MB. A session
without steps, which usually shows data preparation, ends after 64 MB. With this limit, recording a
map over 300,000 elements makes it take 1.17 times as long; with 256 MB, 1.3 times. Heap growth
while a function is traced and first called is not counted, because it belongs to the program's
graphs (530 MB for Keras' MobileNetV2). The program's tensors are counted, because the recorder
cannot distinguish them from the session's memory. If the file is too small for the counted memory,
recording restarts with a higher limit. An eager op adds 143 bytes to the file, and a CNN's step
about 30 kB.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Mapping

from .windows import (
    Action,
    Begin,
    Clock,
    Load,
    StepsWindow,
    TimeWindow,
    WholeWindow,
    Window,
    bound_reached,
    label_of,
)

WHOLE_S = 20.0  # a program that ends within this time is recorded in full
LOOK_FOR_EAGER_S = 1.0
HEAP_BYTES = 512 << 20
SET_UP_BYTES = 64 << 20  # of a session that shows no steps
GRAPHS_BYTES = 512 << 20  # not counted, at most
EAGER_OPS = 200_000
# Of a session without functions: recording slows down each op by a third, and so does writing.
SET_UP_EAGER_OPS, EAGER_LOOP_OPS = 50_000, 10_000
NEXT_CALL = 3  # from this call on, a function is a step; the first calls trace it
STEADY_CALLS, SILENT_S = 5, 1.0
STEADY_EAGER_OPS = 1_000  # this many in a row that are like earlier ones are a loop
# A session that begins with steps ends after this many calls and seconds. Another one continues
# for some seconds of steps, and for some steps, unless they take too long.
NEXT_CALLS, LEAST_STEPS_S = 100, 2.0
STEPS, STEPS_S, LONGEST_STEPS_S = 3, 10.0, 60.0
LONGEST_WAIT_S = 300.0
LEAST_MISSED_S = 5.0
HEAP_PER_BYTE = 10  # of the trace; usually 4, more if the program itself took memory

_SET_UP, _EAGER, _FUNCTION, _FIT = range(4)  # ranks of what a session shows, lowest first
# Keras 2 trains with `train_function`. In Keras 3 training and evaluation share these names.
_KERAS_STEP = re.compile(r"_(?:one|multi)_step_on_")


class _Heap:
    def __init__(self) -> None:
        self._last = Load()
        self._graphs_bytes = 0

    def counted(self, load: Load, *, is_first_call: bool) -> int:
        is_first_call = is_first_call and load.eager_ops == self._last.eager_ops
        if load.is_tracing or is_first_call:
            self._graphs_bytes += max(0, load.heap_bytes - self._last.heap_bytes)
        self._last = load
        return load.heap_bytes - min(self._graphs_bytes, GRAPHS_BYTES)


class AutoWindow(Window):
    """Records all of a short program, or some steps of a long one.

    Recording begins immediately. A step is a call of Keras' training function, a call of another
    function that is called repeatedly, or, if no function repeats, a part of an eager loop.
    Everything before the first step is setup. A long setup before a repeated function is dropped.
    A short one, or the setup of an eager loop, stays in the trace of the steps. A setup that
    reaches a limit becomes a separate trace. Training outranks other functions, and they outrank
    eager loops: steps of a higher rank are recorded even if they come later.
    """

    counts_on = True

    def __init__(self, clock: Clock, is_training: Callable[[], bool] = lambda: False) -> None:
        super().__init__(clock)
        self._opened = clock()
        self._is_training = is_training  # whether Keras' `fit` makes the next call
        self._ranks: dict[str, int] = {}  # of each function that was called repeatedly
        # Of the current session, or the last one:
        self._rank = _SET_UP
        self._steps_at = 0.0  # when the steps began, and the counts of calls then
        self._before: dict[str, int] = {}
        self._called_at = 0.0  # when a function of that rank was last called
        self._begins_with_steps = False
        self._eager_ops_before = 0  # when an eager loop was found
        self._heap = _Heap()
        self._is_first_call = False  # the last call of a function was its first
        self._signatures = self._ops_before = 0  # distinct ones, and all ops before the newest
        # Of the last session that was kept:
        self._recorded_s = 0.0
        self._kept_rank = _SET_UP
        self._recorded: set[str] = set()  # functions that had been called repeatedly
        self._later: dict[str, list[float]] = {}  # since then: calls, time of first and last
        self._ended_at_bytes = 0  # if it reached a memory limit
        self._allowed_bytes = 0  # after a trace was too small for the memory; 0 before

    @property
    def awaits_eager_ops(self) -> bool:  # type: ignore[override]
        return not (self.over or self.recording or self._rank != _SET_UP)

    def used(self) -> Action:
        return self._begin("from the program's first use of TensorFlow")

    def called(self, definition: str) -> Action:
        if self._recorded_s and not self.recording:
            now = self._clock()
            found = self._later.setdefault(self._label_of(definition), [0, now, now])
            found[0] += 1
            found[2] = now
        return None if self.over else super().called(definition)

    def looked(self, load: Load) -> Action:
        """Begin a session if an eager loop runs, or end one that is complete or too large."""
        if not self.recording:
            is_loop = self.awaits_eager_ops and load.eager_ops >= STEADY_EAGER_OPS
            return self._begin_with(_EAGER, "after a loop of eager ops began") if is_loop else None
        if self._rank == _SET_UP and self._repeats(load):
            self._found(_EAGER)
            self._eager_ops_before = load.eager_ops
        counted_bytes = self._heap.counted(load, is_first_call=self._is_first_call)
        load = load._replace(heap_bytes=counted_bytes)
        most_bytes = self._allowed_bytes or (SET_UP_BYTES if self._rank == _SET_UP else HEAP_BYTES)
        most_ops = EAGER_OPS if self._rank > _EAGER else SET_UP_EAGER_OPS
        if self._rank == _EAGER:
            most_ops = self._eager_ops_before + EAGER_LOOP_OPS
        reason = bound_reached(load, most_bytes, most_ops) or self._enough()
        if reason is None:
            return None
        self._ended_at_bytes = most_bytes if counted_bytes >= most_bytes else 0
        self._recorded_s, self._kept_rank = self._elapsed(), self._rank
        self._recorded = set(self._ranks)
        self._later.clear()
        ended = self._end(reason)
        self.over = self._rank == _FIT
        return ended

    def written(self, size: int) -> Action:
        """Begin a new session if the trace is too small to account for the growth of the heap."""
        ended_at = self._ended_at_bytes
        if size * HEAP_PER_BYTE >= ended_at:
            return None
        self._allowed_bytes = HEAP_BYTES if ended_at < HEAP_BYTES else 4 * ended_at
        self.over, self._kept_rank = False, _SET_UP
        reason = "after the program allocated a lot of memory"
        is_set_up = self._rank == _SET_UP
        return self._begin(reason) if is_set_up else self._begin_with(self._rank, reason)

    def next_look_s(self) -> float | None:
        return LOOK_FOR_EAGER_S if self.awaits_eager_ops else super().next_look_s()

    def why_nothing(self) -> str:
        return "TensorFlow was imported, but no op ran"

    def is_too_short(self) -> bool:
        is_short = self.recording and self._elapsed() < LEAST_STEPS_S
        return is_short and self._kept_rank > _SET_UP

    def missed(self) -> str | None:
        later = {k: found for k, found in self._later.items() if k not in self._recorded}
        label = max(later, key=lambda k: later[k][2] - later[k][1], default="")
        calls, first, last = later.get(label, (0, 0.0, 0.0))
        if last - first <= max(self._recorded_s, LEAST_MISSED_S):
            return None
        return (
            f"not recorded: {calls:,.0f} later calls of {label_of(label)} in "
            f"{last - first:,.0f} s; to record them, use --after {first - self._opened:.0f}s"
        )

    def _repeats(self, load: Load) -> bool:
        """Return whether the latest eager ops all repeat earlier ones."""
        if load.signatures > self._signatures:
            self._signatures, self._ops_before = load.signatures, load.eager_ops
        return load.eager_ops - self._ops_before >= STEADY_EAGER_OPS

    def _begin(self, reason: str) -> Begin:
        self._heap = _Heap()
        self._ended_at_bytes = self._eager_ops_before = 0
        return super()._begin(reason)

    def _begin_with(self, rank: int, reason: str) -> Begin:
        begun = self._begin(reason)
        self._found(rank)
        self._begins_with_steps = True
        return begun

    def _found(self, rank: int) -> None:
        self._rank = rank
        self._before = dict(self._counts)
        self._steps_at = self._called_at = self._clock()

    def _label_of(self, definition: str) -> str:
        # Training and evaluation functions have the same name.
        return definition if _KERAS_STEP.search(definition) else label_of(definition)

    def _counted(self, label: str, count: int) -> Action:
        self._is_first_call = count == 1
        rank = self._ranks.get(label)
        is_new = rank is None
        if rank is None or rank > self._rank:
            times = count - self._before.get(label, 0)
            if times < (NEXT_CALL if self.recording else NEXT_CALL - 1):
                return None
            is_fit = label == "train_function" or (
                _KERAS_STEP.search(label) and self._is_training()
            )
            rank = self._ranks[label] = _FIT if is_fit else _FUNCTION
        is_better = rank > self._rank
        if rank == self._rank:
            is_better = self.recording and is_new and not self._is_steady()
            self._called_at = self._clock()
        if not is_better:
            return None
        if self.recording and self._elapsed() < WHOLE_S:
            self._found(rank)
            return None
        return self._begin_with(rank, f"from call {count} of {label_of(label)}")

    def _enough(self) -> str | None:
        """Return how long the session lasted, such as "for 20 s", or None if it must continue."""
        elapsed, steps_s, calls = self._elapsed(), self._clock() - self._steps_at, self._calls()
        if self._rank == _SET_UP:
            is_late = elapsed >= LONGEST_WAIT_S
            return f"for {elapsed:.0f} s without repeated calls" if is_late else None
        is_enough = self._begins_with_steps and steps_s >= LEAST_STEPS_S and calls >= NEXT_CALLS
        if elapsed >= WHOLE_S and steps_s >= STEPS_S:
            is_enough = self._rank == _EAGER or calls >= STEPS or steps_s >= LONGEST_STEPS_S
        if is_enough and self._rank != _EAGER and not self._is_steady():
            self._found(_SET_UP)  # the set-up called a function a few times
            return None
        return f"for {elapsed:.0f} s" if is_enough else None

    def _is_steady(self) -> bool:
        now = self._clock()
        is_silent = now - self._called_at > max(SILENT_S, (now - self._steps_at) / 2)
        return self._calls() >= STEADY_CALLS or not is_silent

    def _calls(self) -> int:
        """Return the number of calls of the most-called function since the steps began."""
        before, counts = self._before, list(self._counts.items())
        ranked = (n - before.get(k, 0) for k, n in counts if self._ranks.get(k) == self._rank)
        return max(ranked, default=0)


def window_of(
    requested: Mapping[str, Any], clock: Clock, is_training: Callable[[], bool] = lambda: False
) -> Window:
    if requested["kind"] == "steps":
        return StepsWindow(clock, int(requested["first"]), int(requested["last"]))
    if requested["kind"] == "whole":
        return WholeWindow(clock)
    if requested["kind"] == "time":
        return TimeWindow(clock, float(requested["after_s"]), float(requested["for_s"]))
    return AutoWindow(clock, is_training)
