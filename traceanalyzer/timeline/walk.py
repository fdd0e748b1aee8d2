"""The walk back in time from the end of a span to what it waited for.

From a device event the walk goes to the thread that launched it, or to the device's earlier work.
On a thread it follows the thread's activity; where the thread did nothing, it goes to the thread
that woke it; where the thread waited for a call or a device, to what ended last there. Time that
cannot be followed is unattributed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from traceanalyzer.native import walk as native
from traceanalyzer.tables.thread_links import DEVICE_LANE
from traceanalyzer.timeline.phase import Phase

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.tables.thread_activity import Launches, ThreadActivity
    from traceanalyzer.timeline.device_work import DeviceWork


class Spans(NamedTuple):
    """Times to account for.

    Attributes:
        start_ps: Starts, int64.
        end_ps: Ends, int64.
        launch: The launch of what ended each; where none did, the thread to go back on.
    """

    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    launch: Launches


class Parts(NamedTuple):
    """Times that follow on each other; one entry a part, by time.

    Attributes:
        start_ps: Starts, int64.
        end_ps: Ends, int64.
        phase: `Phase`, uint8.
        row: Row of the host's op table, -1 for none; int32.
        copy: Row of the host's copy table, -1 for none; int64.
        is_proved: Whether every step of the walk that led here, and through it, is in the trace;
            else some link was taken for granted: a thread, to be set going by what ended last in
            its call; a wait, of a thread or another stream, to be for what a device ended last;
            work, to be of the last launch with its id.
    """

    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    phase: NDArray[np.uint8]
    row: NDArray[np.int32]
    copy: NDArray[np.int64]
    is_proved: NDArray[np.bool_]

    @property
    def duration_ps(self) -> NDArray[np.int64]:
        """How long each part is, int64."""
        return self.end_ps - self.start_ps

    def by_time(self) -> Parts:
        """Return the parts in order of time."""
        order = np.argsort(self.start_ps, kind="stable")
        return Parts(
            self.start_ps[order],
            self.end_ps[order],
            self.phase[order],
            self.row[order],
            self.copy[order],
            self.is_proved[order],
        )


def program_lane(lanes: ThreadActivity | None) -> int:
    """Return the program's thread that marked the most steps or was busiest, -1 if unknown.

    A thread without recorded activity does not count, since it does not show when the program
    waited: JAX makes no TensorFlow calls.
    """
    if lanes is None or not lanes.is_program.any():
        return DEVICE_LANE
    segments = np.where(lanes.is_program, np.diff(lanes.begin), 0)
    marked = np.bincount(lanes.step_lane[segments[lanes.step_lane] > 0], minlength=len(segments))
    if marked.any():
        return int(marked.argmax())
    return int(segments.argmax()) if segments.any() else DEVICE_LANE


def lanes_of_steps(lanes: ThreadActivity | None, start_ps: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the thread that marked each step, by when it begins; else the program's."""
    program = np.full(len(start_ps), program_lane(lanes), np.int32)
    if lanes is None or not len(lanes.step_ps):
        return program
    slot = np.searchsorted(lanes.step_ps, start_ps).clip(max=len(lanes.step_ps) - 1)
    lane = lanes.step_lane[slot]
    is_known = (lanes.step_ps[slot] == start_ps) & (np.diff(lanes.begin)[lane] > 0)
    return np.where(is_known, lane, program).astype(np.int32)


def walk_back(spans: Spans, lanes: ThreadActivity | None, work: DeviceWork | None) -> Parts:
    """Account for a device's idle spans, or for the program's spans.

    Args:
        spans: The spans.
        lanes: What the host's threads did.
        work: What ran on its devices; None for none.

    Returns:
        Parts that cover the spans, by time. The walk does not go through devices: where it comes
        to one within a span, that is another one.
    """
    if lanes is None:
        return _all_unattributed(spans)
    # Work without duration is not waited for and does not end idle time.
    ends, streams = np.empty(0, np.int64), np.empty(0, np.int32)
    if work is not None:
        lasting = np.flatnonzero(work.end_ps > work.start_ps)
        lasting = lasting[np.argsort(work.end_ps[lasting], kind="stable")]
        ends, streams = work.end_ps[lasting], work.stream[lasting]
    start, end, phase, row, event, proved = _walked(spans, lanes, ends, streams)
    return Parts(start, end, phase, row, np.full(len(event), -1, np.int64), proved).by_time()


def walk_through_devices(spans: Spans, lanes: ThreadActivity | None, work: DeviceWork) -> Parts:
    """Account for spans, steps mostly, through threads and devices alike.

    Args:
        spans: The spans.
        lanes: What the host's threads did.
        work: What ran on its devices.

    Returns:
        Parts that cover the spans, by time.
    """
    if lanes is None:
        return _all_unattributed(spans)
    within = (work.end_ps > spans.start_ps.min()) & (work.start_ps < spans.end_ps.max())
    rows = np.flatnonzero(within & (work.device >= 0))
    rows = rows[np.argsort(work.end_ps[rows], kind="stable")]
    launches = work.launches.take(rows)
    start, end, phase, row, event, proved = _walked(
        spans,
        lanes,
        *(work.end_ps[rows], work.stream[rows], work.start_ps[rows]),
        np.where(work.is_copy[rows], Phase.COPY, Phase.COMPUTE).astype(np.uint8),
        work.row[rows],
        *launches,
        _before(work, rows),
    )
    copy = np.append(work.copy[rows], -1)[event]
    return Parts(start, end, phase, row, copy, proved).by_time()


def _before(work: DeviceWork, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return which of `rows` ended last on the same device before each began, -1 for none."""
    before = np.full(len(rows), -1, np.int64)
    for device in range(len(work.devices)):
        own = np.flatnonzero(work.device[rows] == device)
        slot = np.searchsorted(work.end_ps[rows[own]], work.start_ps[rows[own]], side="right") - 1
        # An event without duration ends as it begins; none comes before itself.
        slot = np.minimum(slot, np.arange(len(own)) - 1)
        before[own] = np.where(slot >= 0, own[slot.clip(0)], -1)
    return before


def _walked(spans: Spans, lanes: ThreadActivity, *devices: NDArray[Any]) -> native.Walked:
    links = lanes.links
    columns = native.WalkColumns(
        spans.start_ps, spans.end_ps, *spans.launch,
        lanes.begin, lanes.is_program,
        lanes.start_ps, lanes.end_ps, lanes.state, lanes.row, lanes.call,
        links.begin, links.at_ps, links.from_lane, links.from_ps, links.is_proved,
        lanes.call_id, lanes.call_ps, lanes.call_lane, lanes.call_begins, lanes.call_ends,
        *devices,
    )  # fmt: skip
    return native.walk_back(columns)


def _all_unattributed(spans: Spans) -> Parts:
    n = len(spans.start_ps)
    return Parts(
        spans.start_ps,
        spans.end_ps,
        np.full(n, Phase.UNATTRIBUTED, np.uint8),
        np.full(n, -1, np.int32),
        np.full(n, -1, np.int64),
        np.ones(n, np.bool_),
    )
