"""Walks back in time from the end of a wait, through the events that caused the wait.

From a device event, the walk goes to the thread that launched it, or to the device's earlier work.
On a thread, it follows the thread's activity. If the thread did nothing, the walk goes to the
thread that woke it. If the thread waited for a call or a device, the walk goes to the last event
that ended in that call or on that device. While it passes through the runtime, ops of the same
call can run on other threads: that time is theirs, unless they end after the end of the call, or
after the launch that the walk came from. Time without a known cause is unattributed. If only ops of
calls that the walk did not reach ran in the runtime's or in unattributed time, it may be theirs.

The loops are in `native/walk.c`, which documents their columns.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pandas as pd

from traceanalyzer.native.library import NativeFunction
from traceanalyzer.tables.thread_activity import ON_DEVICE, Launches, ThreadState
from traceanalyzer.timeline.intervals import Intervals, common, inside_ps, union, without

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from traceanalyzer.tables.thread_activity import ThreadActivity
    from traceanalyzer.timeline.device_parts import DeviceWork


class Phase(IntEnum):
    """The activities of a device and the reasons for its waits. See also `ThreadState`."""

    HOST_OP = ThreadState.HOST_OP
    INPUT = ThreadState.INPUT
    LAUNCH = ThreadState.LAUNCH
    RUNTIME = ThreadState.RUNTIME
    PROGRAM = ThreadState.PROGRAM
    UNPLACED = ThreadState.UNPLACED
    COMPUTE = 8  #: a kernel ran
    COPY = 9  #: a transfer ran, but no kernel
    QUEUED = 10  #: the next work was launched but had not begun
    OTHER_DEVICE = 11  #: it waited for another device
    UNATTRIBUTED = 12  #: the trace does not show the cause
    PREPARATION = ThreadState.PREPARATION


_busy_and_idle = NativeFunction(
    "busy_and_idle", "int64 int64 int64 int64 number number int64= int64= uint8= int64="
)
_walk_back = NativeFunction(
    "walk_back",
    "int64 int64 int32 int64 int64"
    " int64 bool int64 int64 uint8 int32 int64"
    " int64 int64 int32 int64"
    " int64 int64 int32"
    " int64 int64 int64 int64 int64 int64="
    " int64"
    " int64= int64= uint8= int32= uint8= int64=",
)
_TYPES: Final = (np.int64, np.int64, np.uint8, np.int32, np.uint8)  # of the columns of parts
_WAITED_FOR: Final = (Phase.HOST_OP, Phase.INPUT, Phase.COPY)

_OPEN: Final = (Phase.RUNTIME, Phase.UNATTRIBUTED)
_NOT_FOR_OPS: Final = (ThreadState.INPUT, ThreadState.LAUNCH, ThreadState.UNPLACED)


class Spans(NamedTuple):
    """The intervals that a walk splits into parts."""

    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    launch: Launches  #: of the event that ended each, or else the thread to go back on


class Parts(NamedTuple):
    """Consecutive intervals of one phase each."""

    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    phase: NDArray[np.uint8]  #: `Phase`
    row: NDArray[np.int32]  #: of the host's op table, -1 for none
    #: Equal to `phase`, or the phase of another op that the device may have waited for instead.
    other: NDArray[np.uint8]
    transfer: NDArray[np.int64]  #: row of the host's transfer table, -1 for none

    @property
    def duration_ps(self) -> NDArray[np.int64]:
        """The duration of each part."""
        return self.end_ps - self.start_ps

    @property
    def is_exposed(self) -> NDArray[np.bool_]:
        """A mask of the parts in which a device waited for a host op or for the op's transfer."""
        return np.isin(self.phase, _WAITED_FOR) & (self.row >= 0)

    @property
    def is_host_op(self) -> NDArray[np.bool_]:
        """A mask of the parts that belong to an op that computes on the host, for certain."""
        found: NDArray[np.bool_] = (self.phase == Phase.HOST_OP) & (self.other == Phase.HOST_OP)
        return found

    @property
    def may_be_host_op(self) -> NDArray[np.bool_]:
        """A mask of the parts that may belong to an op that computes on the host."""
        found: NDArray[np.bool_] = (self.phase == Phase.HOST_OP) | (self.other == Phase.HOST_OP)
        return found

    def times(self, chosen: NDArray[np.bool_]) -> Intervals:
        """Return the times of some parts."""
        return union(self.start_ps[chosen], self.duration_ps[chosen])

    def within(self, start_ps: NDArray[np.int64], duration_ps: NDArray[np.int64]) -> pd.DataFrame:
        """Return the time of each phase (column) in each interval (row)."""
        end_ps, took = start_ps + duration_ps.clip(0), {}
        for phase in Phase:
            took[phase] = inside_ps(self.times(self.phase == phase), start_ps, end_ps)
        return pd.DataFrame(took)

    def by_time(self) -> Parts:
        """Return the parts, sorted by start."""
        order = np.argsort(self.start_ps, kind="stable")
        return Parts._make(column[order] for column in self)


def program_thread(threads: ThreadActivity | None) -> int:
    """Return the program thread that marked the most steps, or else the busiest one, or -1.

    Ignore threads without recorded activity: JAX marks steps, but makes no TensorFlow calls.
    """
    if threads is None or not threads.is_program.any():
        return ON_DEVICE
    segments = np.where(threads.is_program, np.diff(threads.begin), 0)
    marked = np.bincount(
        threads.step_thread[segments[threads.step_thread] > 0], minlength=len(segments)
    )
    if marked.any():
        return int(marked.argmax())
    return int(segments.argmax()) if segments.any() else ON_DEVICE


def program_segments(threads: ThreadActivity | None) -> slice:
    """Return the program thread's segments, as a slice that is empty if the thread is unknown."""
    thread = program_thread(threads)
    if threads is None or thread == ON_DEVICE:
        return slice(0, 0)
    return slice(int(threads.begin[thread]), int(threads.begin[thread + 1]))


def walk_back(spans: Spans, threads: ThreadActivity | None, work: DeviceWork | None) -> Parts:
    """Split the idle spans of a device or of the program into parts with one phase each."""
    n = len(spans.start_ps)
    if threads is None:
        unknown = np.full(n, Phase.UNATTRIBUTED, np.uint8)
        row, none = np.full(n, -1, np.int32), np.full(n, -1, np.int64)
        return Parts(spans.start_ps, spans.end_ps, unknown, row, unknown, none)
    # Nothing waits for work without duration, which does not end idle time.
    ends = np.empty(0, np.int64)
    if work is not None:
        ends = np.sort(work.end_ps[work.end_ps > work.start_ps])
    columns = (
        spans.start_ps, spans.end_ps, *spans.launch,
        threads.begin, threads.is_program,
        threads.start_ps, threads.end_ps, threads.state, threads.row, threads.call,
        *threads.links, *threads.calls, *threads.ops, np.empty_like(threads.ops.segment),
        ends,
    )  # fmt: skip
    start, end, phase, row, other = walked_back(columns)
    parts = Parts(start, end, phase, row, other, np.full(len(start), -1)).by_time()
    return _with_doubt(parts, threads)


def _with_doubt(parts: Parts, threads: ThreadActivity) -> Parts:
    """Mark what may be the time of host ops in calls that the walk did not reach.

    Nothing else ran in that time, but the trace does not show whether anything waited for them.
    """

    def ran(chosen: NDArray[np.bool_]) -> Intervals:
        return union(threads.start_ps[chosen], (threads.end_ps - threads.start_ps)[chosen])

    ops = ran((threads.state == ThreadState.HOST_OP) & (threads.call != 0))
    alone = without(ops, ran(np.isin(threads.state, _NOT_FOR_OPS)))
    is_open = np.isin(parts.phase, _OPEN) & (parts.other == parts.phase)
    doubtful = common(parts.times(is_open), alone)
    cuts = np.column_stack(doubtful).ravel()
    first = np.searchsorted(cuts, parts.start_ps, side="right")
    pieces = np.searchsorted(cuts, parts.end_ps, side="left") - first + 1
    of = np.repeat(np.arange(len(pieces)), pieces)
    nth = np.arange(len(of)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    at = np.append(cuts, 0)[np.minimum(first[of] + nth, len(cuts))]  # the end of each but the last
    before = np.append(cuts, 0)[first[of] + nth - 1]
    start_ps = np.where(nth == 0, parts.start_ps[of], before)
    end_ps = np.where(nth == pieces[of] - 1, parts.end_ps[of], at)
    is_doubtful = is_open[of] & (inside_ps(doubtful, start_ps, end_ps) > 0)
    divided = Parts._make(column[of] for column in parts)
    other = np.where(is_doubtful, np.uint8(Phase.HOST_OP), divided.other)
    return divided._replace(start_ps=start_ps, end_ps=end_ps, other=other)


def walked_back(columns: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Return the columns of each span's parts, up to `other`, latest part first."""
    spans, done = len(columns[0]), np.zeros(2, np.int64)
    parts: list[NDArray[Any]] = [np.empty(4 * spans + 1024, dtype) for dtype in _TYPES]
    _walk_back(*columns, *parts, done)
    while done[0] < spans:
        parts = [np.concatenate([part, np.empty_like(part)]) for part in parts]
        _walk_back(*columns, *parts, done)
    return [part[: done[1]] for part in parts]


def busy_and_idle(
    busy: Intervals, transfers: Sequence[NDArray[np.int64]], extent: tuple[int, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64]]:
    """Return the start, end, phase, and transfer (or -1) of each part of a device's time.

    The phases are `COMPUTE`, `COPY`, and `UNATTRIBUTED`. `transfers` are starts and ends, by start.
    """
    room = 2 * (len(busy[0]) + len(transfers[0])) + 1
    start_ps, end_ps, transfer = (np.empty(room, np.int64) for _ in range(3))
    phase = np.empty(room, np.uint8)
    n = _busy_and_idle(*busy, *transfers, *extent, start_ps, end_ps, phase, transfer)
    return start_ps[:n], end_ps[:n], phase[:n], transfer[:n]
