"""The timeline of the report: every event, or as many as fit, and the arrows between them.

If there are too many, short events that follow on each other are merged. Two events are merged if
both are shorter than a threshold, the second begins less than that after the first ended, and both
are in the same interval of four thresholds. So no event is left out, and long ones stay as they
are. Ops on the CPU that something explains are never merged, unless they are most of all events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pandas as pd

from traceanalyzer.model.blocks import Timeline
from traceanalyzer.model.times import EventLane, EventTimeline
from traceanalyzer.report.arrows import arrows_between
from traceanalyzer.report.lanes import KINDS, EventName, HostLane, Names, host_lanes
from traceanalyzer.report.packed import Numbers, Texts, pack
from traceanalyzer.report.text import cut, op_label
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from traceanalyzer.model import PackedTable
    from traceanalyzer.run import Host, Run

_MOST_EVENTS: Final = 400_000
_MOST_BYTES: Final = 1_100_000  # of the packed events
_MOST_NAMES: Final = 8_000
_NAME_LENGTH: Final = 160
_MOST_LANES: Final = 200  # of threads, and of the rest
_UNITS_NS: Final[tuple[int, ...]] = tuple(f * 10**e for e in range(9) for f in (1, 2, 5))
_MOST_UNITS: Final = 2**31  # the run is no longer than that
_STAYING_SHARE: Final = 0.4  # of the events, for those that are never merged
_FIRST_THRESHOLD_PS: Final = 1024
_LEVEL: Final = 5
_LIMIT_PS: Final = 2**60
_LONGEST_PS: Final = 2**50  # all that is longer counts as that long


class Events(NamedTuple):
    """Events by lane, and within a lane by start; merged ones with their number."""

    begin: NDArray[np.int64]  # first event of each lane, and the number of events
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    what: NDArray[np.int64]  # rows of names
    number: NDArray[np.int64]  # how many events each stands for
    first: NDArray[np.int64]  # the first of these


def timeline_block(run: Run, explained: Collection[str]) -> Timeline | None:
    """Return the timeline; None without events. `explained` are ids of ops to show apart."""
    names = Names()
    gathered = [(host, lane) for host in run.hosts for lane in host_lanes(host, names)]
    gathered = [(host, lane) for host, lane in gathered if len(lane.start_ps)]
    if not gathered:
        return None
    origin_ps = min(host.start_ps for host in run.hosts)
    lanes = _busiest(gathered)
    whole = _joined([lane for _, lane in lanes], origin_ps)
    called, rows = _called(names.rows, whole)
    whole = whole._replace(what=rows[whole.what])
    ids = set(explained)
    stays = np.array([name.op_id in ids for name in called])[whole.what]
    unit_ns = _unit_ns(whole)
    events, packed, below_ps = _fitted(whole, stays, called, unit_ns)
    sizes = zip(lanes, np.diff(events.begin), np.diff(whole.begin), strict=True)
    timeline = EventTimeline(
        unit_ns=unit_ns,
        end_us=int(whole.end_ps.max()) / PS_PER_US,
        lanes=tuple(_lane(*lane, origin_ps, int(n), int(total)) for lane, n, total in sizes),
        lanes_total=len(gathered),
        names=_packed_names(called, run.ops),
        events=packed,
        events_total=len(whole.start_ps),
        merged_total=int(events.number[events.number > 1].sum()),
        merged_below_us=None if below_ps is None else below_ps / PS_PER_US,
    )
    joined = arrows_between(lanes, whole, called)
    return Timeline(events=timeline, arrows=_packed_arrows(joined, events.first))


def _busiest(gathered: Sequence[tuple[Host, HostLane]]) -> list[tuple[Host, HostLane]]:
    """Return the lanes to show, in order; if too many, the busiest."""
    kept: set[int] = set()
    for is_thread in (True, False):
        own = [k for k, (_, lane) in enumerate(gathered) if (lane.kind == "thread") == is_thread]
        own.sort(key=lambda k: -gathered[k][1].busy_ps)
        kept.update(own[:_MOST_LANES])
    return [pair for k, pair in enumerate(gathered) if k in kept]


def _joined(lanes: Sequence[HostLane], origin_ps: int) -> Events:
    """Return the events of all lanes, their times from the run's first event."""
    start = np.concatenate([lane.start_ps for lane in lanes]) - origin_ps
    end = np.concatenate([lane.end_ps for lane in lanes]) - origin_ps
    start = start.clip(0, _LIMIT_PS)
    return Events(
        begin=np.concatenate([[0], np.cumsum([len(lane.start_ps) for lane in lanes])]),
        start_ps=start,
        end_ps=np.maximum(end.clip(0, _LIMIT_PS), start),
        what=np.concatenate([lane.what for lane in lanes]),
        number=np.ones(len(start), np.int64),
        first=np.arange(len(start)),
    )


# --- their names -----------------------------------------------------------------------------


def _called(
    names: Sequence[EventName], events: Events
) -> tuple[list[EventName], NDArray[np.int64]]:
    """Return the names of the longest events, a name for the others of each kind, and their rows.

    The others are at the end, by kind; merged events are among them.
    """
    took = np.bincount(events.what, events.end_ps - events.start_ps, len(names))
    used = np.bincount(events.what, minlength=len(names)) > 0
    kept = np.argsort(-np.where(used, took, -1.0), kind="stable")[:_MOST_NAMES]
    kept = kept[used[kept]]
    rows = len(kept) + np.array([name.kind for name in names], np.int64)
    rows[kept] = np.arange(len(kept))
    others = [EventName(None, kind, None) for kind in range(len(KINDS))]
    return [*(names[k] for k in kept.tolist()), *others], rows


def _packed_names(called: Sequence[EventName], ops: pd.DataFrame) -> PackedTable:
    shown = ops[ops["op_id"].isin({name.op_id for name in called})]
    texts = zip(shown["op_id"], shown["name"].astype(str), shown["type"].astype(str), strict=True)
    op_names = {op_id: cut(op_label(name, type_), _NAME_LENGTH) for op_id, name, type_ in texts}
    columns = {
        "name": _texts([n.name and cut(n.name, _NAME_LENGTH) for n in called]),
        "kind": Texts(np.array([n.kind for n in called]), KINDS),
        "op_id": _texts([n.op_id for n in called]),
        "op": _texts([op_names.get(n.op_id or "") for n in called]),
    }
    return pack(columns, len(called))


def _texts(values: Sequence[str | None]) -> Texts:
    codes, texts = pd.factorize(np.array(values, dtype=object))
    return Texts(codes, texts.tolist())


# --- as many as fit --------------------------------------------------------------------------


def _fitted(
    events: Events, stays: NDArray[np.bool_], called: Sequence[EventName], unit_ns: int
) -> tuple[Events, PackedTable, int | None]:
    """Return as many events as fit, also packed, and the threshold below which they are merged."""
    kinds = np.array([name.kind for name in called], np.int64)
    most = _MOST_EVENTS
    fitted, below_ps = events, None
    while True:
        if len(events.start_ps) > most:
            may_merge = np.ones(len(stays), np.bool_)
            if np.count_nonzero(stays) <= most * _STAYING_SHARE:
                may_merge = ~stays
            fitted, below_ps = fewer(events, may_merge, most, kinds)
        packed = _packed(fitted, unit_ns, len(events.start_ps))
        if len(packed.data) <= _MOST_BYTES or len(fitted.start_ps) <= len(events.begin):
            return fitted, packed, below_ps
        fitting = len(fitted.start_ps) * _MOST_BYTES / len(packed.data)
        most = min(int(0.95 * fitting), len(fitted.start_ps) - 1)


def fewer(
    events: Events, may_merge: NDArray[np.bool_], most: int, kinds: NDArray[np.int64]
) -> tuple[Events, int]:
    """Merge short events until at most so many are left, or all that can be are merged."""
    start, took = events.start_ps, events.end_ps - events.start_ps
    idle = start[1:] - events.end_ps[:-1]
    size = np.maximum(np.maximum(took[1:], took[:-1]), idle)  # what must be below the threshold
    size[~(may_merge[1:] & may_merge[:-1])] = _LIMIT_PS
    inner = events.begin[(events.begin > 0) & (events.begin < len(start))]
    size[inner - 1] = _LIMIT_PS
    too_many = len(start) - most
    least_ps = int(np.partition(size, too_many - 1)[too_many - 1]) + 1  # as if all below it joined
    least_ps = min(max(least_ps, _FIRST_THRESHOLD_PS), _LIMIT_PS // 2)
    shift = (least_ps - 1).bit_length() + 2
    while True:
        below_ps = 1 << (shift - 2)  # a power of two
        joins = (size < below_ps) & (start[1:] >> shift == start[:-1] >> shift)
        first = np.flatnonzero(np.concatenate([[True], ~joins]))
        if len(first) <= most or below_ps >= _LIMIT_PS // 2:
            return _merged(events, first, kinds), below_ps
        shift += 1


def _merged(events: Events, first: NDArray[np.int64], kinds: NDArray[np.int64]) -> Events:
    """Merge the events from each first one to the next; they are of the kind of the longest."""
    what = events.what[first]
    is_mixed = np.minimum.reduceat(events.what, first) != np.maximum.reduceat(events.what, first)
    took = (events.end_ps - events.start_ps).clip(0, _LONGEST_PS)
    longest = np.maximum.reduceat(took * len(KINDS) + kinds[events.what], first) % len(KINDS)
    return Events(
        begin=np.searchsorted(first, events.begin),
        start_ps=events.start_ps[first],
        end_ps=np.maximum.reduceat(events.end_ps, first),
        what=np.where(is_mixed, len(kinds) - len(KINDS) + longest, what),
        number=np.diff(first, append=len(events.start_ps)),
        first=first,
    )


# --- packed ----------------------------------------------------------------------------------


def _unit_ns(events: Events) -> int:
    """Return the unit in which times fit into 31 bits: a nanosecond for runs below two seconds."""
    end_ns = int(events.end_ps.max()) // 1000
    return next((u for u in _UNITS_NS if end_ns // u < _MOST_UNITS), _UNITS_NS[-1])


def _packed(events: Events, unit_ns: int, total: int) -> PackedTable:
    unit_ps = 1000 * unit_ns
    start = (events.start_ps + unit_ps // 2) // unit_ps
    end = (events.end_ps + unit_ps // 2) // unit_ps
    before = np.concatenate([[0], end[:-1]])
    before[events.begin[events.begin < len(start)]] = 0
    columns = {
        "gap": start - before,
        "duration": end - start,
        "what": events.what,
        "count": events.number,
    }
    return pack({name: Numbers(column) for name, column in columns.items()}, total, level=_LEVEL)


def _packed_arrows(joined: NDArray[np.int64], first: NDArray[np.int64]) -> PackedTable | None:
    """Pack pairs of events, by the rows of the packed events."""
    rows = np.unique(np.searchsorted(first, joined, side="right") - 1, axis=0)
    rows = rows[rows[:, 0] != rows[:, 1]]
    columns = {"from": Numbers(rows[:, 0]), "to": Numbers(rows[:, 1])}
    return pack(columns, len(rows)) if len(rows) else None


def _lane(host: Host, lane: HostLane, origin_ps: int, rows: int, total: int) -> EventLane:
    begin_ps = None
    if lane.plane is not None:
        begin_ps = host.tables.line_begins.get((lane.plane, lane.name))
    return EventLane(
        host=host.name,
        name=lane.name,
        kind=lane.kind,
        device=lane.device,
        plane=lane.plane,
        is_program=lane.is_program,
        rows=rows,
        events_total=total,
        busy_us=lane.busy_ps / PS_PER_US,
        begin_us=None if begin_ps is None else (begin_ps + lane.shift_ps - origin_ps) / PS_PER_US,
    )
