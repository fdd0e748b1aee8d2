"""Which events of the timeline follow from which: a producer, its transfer, and its consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.report.lanes import COPY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from traceanalyzer.report.lane_events import Events
    from traceanalyzer.report.lanes import EventName, HostLane
    from traceanalyzer.run import Host

_MOST_TRANSFERS: Final = 5_000
_TIME_BITS: Final = 43  # nanoseconds of more than an hour, before and after a moment


def arrows_between(
    lanes: Sequence[tuple[Host, HostLane]], events: Events, called: Sequence[EventName]
) -> NDArray[np.int64]:
    """Return pairs of events: before and after, for the longest transfers.

    The producer is the last event of the op that made the value, before its transfer; the consumer
    is the first event of the op that takes it, after.
    """
    code: dict[str | None, int] = {None: -1}
    op_of_name = np.array([code.setdefault(name.op_id, len(code)) for name in called])
    is_copy = np.array([name.kind == COPY for name in called])
    transfer, ends = _transfers(lanes, events, code)
    is_end = np.zeros(len(code) + 1, np.bool_)
    is_end[ends] = True
    is_end[-1] = False  # of no op
    others = np.flatnonzero((is_end[op_of_name] & ~is_copy)[events.what])
    op = op_of_name[events.what[others]]
    # The last that ended before each transfer, and the first that began after it.
    found, before = _nearest(op, events.end_ps[others], ends[0], events.start_ps[transfer])
    pairs = [np.stack([others[before], transfer[found]], axis=1)]
    found, after = _nearest(op, -events.start_ps[others], ends[1], -events.end_ps[transfer])
    pairs.append(np.stack([transfer[found], others[after]], axis=1))
    return np.concatenate(pairs)


def _transfers(
    lanes: Sequence[tuple[Host, HostLane]], events: Events, code: Mapping[str | None, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the events of each lane's longest transfers, and their producers and consumers."""
    found, ends = [np.empty(0, np.int64)], [np.empty((2, 0), np.int64)]
    for k, (host, lane) in enumerate(lanes):
        if lane.transfer is None:
            continue
        at = np.flatnonzero(lane.transfer >= 0)
        at = at[np.argsort(lane.start_ps[at] - lane.end_ps[at], kind="stable")[:_MOST_TRANSFERS]]
        table = host.tables.transfers.iloc[lane.transfer[at]]
        columns = [table[end].astype(object) for end in ("producer", "consumer")]
        ends.append(np.array([[code.get(op_id, -1) for op_id in of] for of in columns], np.int64))
        found.append(events.begin[k] + at)
    return np.concatenate(found), np.concatenate(ends, axis=1)


def _nearest(
    op: NDArray[np.int64],
    time_ps: NDArray[np.int64],
    wanted: NDArray[np.int64],
    moment_ps: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return which moments have an event of the wanted op at or before them, and the last such."""
    order = np.lexsort((time_ps, op))
    keys = _keys(op, time_ps)[order]
    place = np.searchsorted(keys, _keys(wanted, moment_ps), side="right") - 1
    found = np.flatnonzero((wanted >= 0) & (place >= 0))
    nearest = order[place[found]]
    is_same = op[nearest] == wanted[found]
    return found[is_same], nearest[is_same]


def _keys(op: NDArray[np.int64], time_ps: NDArray[np.int64]) -> NDArray[np.int64]:
    keys: NDArray[np.int64] = (op << _TIME_BITS) + time_ps // 1000 + 2 ** (_TIME_BITS - 1)
    return keys
