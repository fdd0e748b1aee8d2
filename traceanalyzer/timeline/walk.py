"""The walk back in time from the end of a span, through the events that it waited for.

From a device event, the walk goes to the thread that launched it, or to the device's earlier work.
On a thread, it follows the thread's activity. If the thread did nothing, the walk goes to the
thread that woke it; if it waited for a call or a device, to the event that ended last there. Time
that cannot be followed is unattributed.

The walk through a step, the critical path, goes through devices; the walk that explains idle time
does not.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pandas as pd

from traceanalyzer.native import walk as native
from traceanalyzer.tables.thread_activity import ON_DEVICE, Launches, ThreadState
from traceanalyzer.timeline.intervals import inside_ps, union

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.tables.host_tables import HostTables
    from traceanalyzer.tables.thread_activity import ThreadActivity
    from traceanalyzer.timeline.device_parts import DeviceWork, HostTimeline


class Phase(IntEnum):
    """The activities and waits of a device; see also `ThreadState`."""

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


_WAITED_FOR: Final = (Phase.HOST_OP, Phase.INPUT, Phase.COPY)


class Spans(NamedTuple):
    """Intervals to attribute."""

    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    launch: Launches  #: of the event that ended each, or else the thread to go back on


class Parts(NamedTuple):
    """Consecutive times, each of one phase."""

    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    phase: NDArray[np.uint8]  #: `Phase`
    row: NDArray[np.int32]  #: of the host's op table, -1 for none
    transfer: NDArray[np.int64]  #: row of the host's transfer table, -1 for none
    #: Whether the trace shows every link of the walk up to and through this part. Otherwise, it was
    #: assumed that the last event to end in a call woke its thread; that a thread or stream waited
    #: for the last work of a device; or that work belongs to the last launch with its id.
    is_proved: NDArray[np.bool_]

    @property
    def duration_ps(self) -> NDArray[np.int64]:
        """How long each part is."""
        return self.end_ps - self.start_ps

    @property
    def is_exposed(self) -> NDArray[np.bool_]:
        """Which parts are waits of a device for a host op, or for a transfer made for one."""
        waited: NDArray[np.bool_] = np.isin(self.phase, _WAITED_FOR) & (self.row >= 0)
        return waited

    def within(self, start_ps: NDArray[np.int64], duration_ps: NDArray[np.int64]) -> pd.DataFrame:
        """Return how much time each phase (column) took in each interval (row)."""
        end_ps, took = start_ps + duration_ps.clip(0), {}
        for phase in Phase:
            chosen = self.phase == phase
            times = union(self.start_ps[chosen], self.duration_ps[chosen])
            took[phase] = inside_ps(times, start_ps, end_ps)
        return pd.DataFrame(took)

    def by_time(self) -> Parts:
        """Return the parts in order of time."""
        order = np.argsort(self.start_ps, kind="stable")
        return Parts._make(column[order] for column in self)


def program_thread(threads: ThreadActivity | None) -> int:
    """Return the program's thread that marked the most steps or was busiest, -1 if unknown.

    A thread without recorded activity does not count: JAX makes no TensorFlow calls.
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
    """Return the segments of the program's thread; none if it is unknown."""
    thread = program_thread(threads)
    if threads is None or thread == ON_DEVICE:
        return slice(0, 0)
    return slice(int(threads.begin[thread]), int(threads.begin[thread + 1]))


def walk_back(spans: Spans, threads: ThreadActivity | None, work: DeviceWork | None) -> Parts:
    """Attribute a device's idle spans, or the program's spans; the parts cover the spans."""
    # Nothing waits for work without duration, which does not end idle time.
    ends, streams = np.empty(0, np.int64), np.empty(0, np.int32)
    if work is not None:
        lasting = np.flatnonzero(work.end_ps > work.start_ps)
        lasting = lasting[np.argsort(work.end_ps[lasting], kind="stable")]
        ends, streams = work.end_ps[lasting], work.stream[lasting]
    return _walked(spans, threads, np.empty(0, np.int64), ends, streams)


def critical_path(tables: HostTables, timeline: HostTimeline, steps: pd.DataFrame) -> Parts:
    """Return the critical path through some steps: parts that cover each step.

    The path begins at the end of a step, on the thread that marked it, or else on the program's. If
    a thread waited for a device, the path goes on with the work that the device finished last; from
    a kernel or transfer, with the device's previous work or with the launch, whichever was later.
    """
    threads, work = tables.threads, timeline.work
    start = steps["start_ps"].to_numpy(np.int64)
    end = start + steps["duration_ps"].to_numpy(np.int64).clip(0)
    thread = _threads_of_steps(threads, start)
    spans = Spans(start, end, Launches(thread, end, end, np.ones(len(start), np.bool_)))
    if work is None:
        return walk_back(spans, threads, None)
    within = (work.end_ps > start.min()) & (work.start_ps < end.max())
    rows = np.flatnonzero(within & (work.device >= 0))
    rows = rows[np.argsort(work.end_ps[rows], kind="stable")]
    return _walked(
        spans,
        threads,
        work.transfer[rows],
        work.end_ps[rows],
        work.stream[rows],
        work.start_ps[rows],
        np.where(work.is_transfer[rows], Phase.COPY, Phase.COMPUTE).astype(np.uint8),
        work.row[rows],
        *work.launches.take(rows),
        _before(work, rows),
    )


def _threads_of_steps(
    threads: ThreadActivity | None, start_ps: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Return the thread that marked each step, or else the program's thread."""
    program = np.full(len(start_ps), program_thread(threads), np.int32)
    if threads is None or not len(threads.step_ps):
        return program
    slot = np.searchsorted(threads.step_ps, start_ps).clip(max=len(threads.step_ps) - 1)
    thread = threads.step_thread[slot]
    is_known = (threads.step_ps[slot] == start_ps) & (np.diff(threads.begin)[thread] > 0)
    return np.where(is_known, thread, program).astype(np.int32)


def _before(work: DeviceWork, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return which of `rows` ended last on the device before each began, -1 for none."""
    before = np.full(len(rows), -1, np.int64)
    for device in range(len(work.devices)):
        own = np.flatnonzero(work.device[rows] == device)
        slot = np.searchsorted(work.end_ps[rows[own]], work.start_ps[rows[own]], side="right") - 1
        # An event without duration ends when it begins, but does not precede itself.
        slot = np.minimum(slot, np.arange(len(own)) - 1)
        before[own] = np.where(slot >= 0, own[slot.clip(0)], -1)
    return before


def _walked(
    spans: Spans,
    threads: ThreadActivity | None,
    transfer: NDArray[np.int64],
    end_ps: NDArray[np.int64],
    stream: NDArray[np.int32],
    *through: NDArray[Any],
) -> Parts:
    """Walk back; `transfer` and the parameters after it are columns of the devices' work."""
    if threads is None:
        n = len(spans.start_ps)
        unknown = np.full(n, Phase.UNATTRIBUTED, np.uint8)
        row, none = np.full(n, -1, np.int32), np.full(n, -1, np.int64)
        return Parts(spans.start_ps, spans.end_ps, unknown, row, none, np.ones(n, np.bool_))
    columns = (
        spans.start_ps, spans.end_ps, *spans.launch,
        threads.begin, threads.is_program,
        threads.start_ps, threads.end_ps, threads.state, threads.row, threads.call,
        *threads.links, *threads.calls,
        end_ps, stream,
    )  # fmt: skip
    start, end, phase, row, event, proved = native.walk_back(columns, through)
    return Parts(start, end, phase, row, np.append(transfer, -1)[event], proved).by_time()
