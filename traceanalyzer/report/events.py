"""The timeline of the report: every event, or as many as fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pandas as pd

from traceanalyzer.model.times import EventLane, EventTimeline
from traceanalyzer.report.event_lanes import KINDS, HostLane, Names, host_lanes
from traceanalyzer.report.idle_gaps import idle_gaps
from traceanalyzer.report.level_of_detail import Events, Kinds, joined_from, threshold, together
from traceanalyzer.report.packed import Numbers, Texts, pack
from traceanalyzer.report.text import cut, op_label
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.model import PackedTable
    from traceanalyzer.run import Host

_MOST_EVENTS: Final = 1_000_000
_MOST_BYTES: Final = 1_900_000  # of base64, where the page has room for so many
_MOST_NAMES: Final = 12_000
_MOST_NAME_BYTES: Final = 450_000  # of base64, for those
_NAME_LENGTH: Final = 160
_MOST_LANES: Final = 200  # of threads, and of the rest
_UNITS_NS: Final = tuple(f * 10**e for e in range(9) for f in (1, 2, 5))
_MOST_UNITS: Final = 2**31  # the run is no longer than that
_SAMPLE: Final = (16, 2048)  # stretches that are packed to see how well the whole would, of rows
_MARKED_SHARE: Final = 0.4  # of the room, for events of findings that stay by themselves
_LEVEL: Final = 5
_TRIES: Final = 6
_LIMIT_PS: Final = 2**60


class _Found(NamedTuple):
    """A lane, and whose."""

    host: Host
    lane: HostLane


class _Names(NamedTuple):
    """The distinct events, in columns; merged ones, at the end, have no name."""

    name: list[str | None]
    kind: NDArray[np.int64]
    op_id: list[str | None]
    op: list[str | None]  # names of those
    finding: NDArray[np.int64]


def event_timeline(diagnosis: Diagnosis, most_bytes: int = _MOST_BYTES) -> EventTimeline | None:
    """Return the timeline; None without events."""
    run = diagnosis.run
    names = Names()
    gathered = [_Found(host, lane) for host in run.hosts for lane in host_lanes(host, names)]
    gathered = [found for found in gathered if len(found.lane.start_ps)]
    if not gathered:
        return None
    origin_ps = min(host.start_ps for host in run.hosts)
    finding_of = marked_findings(diagnosis)
    lanes = _shown(gathered)
    events = _joined([found.lane for found in lanes], origin_ps)
    called, what = _called(names, events, finding_of, run.ops)
    events = events._replace(what=what)
    unit_ns = _unit_ns(events)
    fitted, below_ps, kinds = _fitted(events, called, unit_ns, min(most_bytes, _MOST_BYTES))
    gaps, gaps_total = idle_gaps(run, origin_ps, finding_of)
    findings = list(dict.fromkeys(finding_of.values()))
    return EventTimeline(
        unit_ns=unit_ns,
        end_us=int(events.end_ps.max()) / PS_PER_US,
        lanes=tuple(
            _lane(found, origin_ps, rows, total)
            for found, rows, total in zip(
                lanes, np.diff(fitted.begin), np.diff(events.begin), strict=True
            )
        ),
        lanes_total=len(gathered),
        names=_packed_names(called, kinds, findings),
        events=_packed(fitted, unit_ns, len(events.start_ps)),
        events_total=len(events.start_ps),
        merged_total=int(fitted.number[fitted.number > 1].sum()),
        merged_below_us=None if below_ps is None else below_ps / PS_PER_US,
        gaps=gaps,
        gaps_total=gaps_total,
    )


def marked_findings(diagnosis: Diagnosis) -> dict[str, str]:
    """Return the finding that marks each op, the most expensive of several.

    By-design findings mark none. If no GPU was used, the findings for a machine with one say more.
    """
    found = diagnosis.findings
    if not diagnosis.run.gpu_used and diagnosis.on_a_gpu is not None:
        found = diagnosis.on_a_gpu.findings
    marked: dict[str, str] = {}
    for harm in ("harmful", "harmless"):
        for finding in found:
            if finding.harm == harm:
                for op_id in finding.op_ids:
                    marked.setdefault(op_id, finding.id)
    return marked


def _shown(gathered: Sequence[_Found]) -> list[_Found]:
    """Return the lanes to show, in order; if too many, the busiest."""
    kept: set[int] = set()
    for is_thread in (True, False):
        own = [k for k, f in enumerate(gathered) if (f.lane.kind == "thread") == is_thread]
        own.sort(key=lambda k: -gathered[k].lane.busy_ps)
        kept.update(own[:_MOST_LANES])
    return [found for k, found in enumerate(gathered) if k in kept]


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
        stays=np.zeros(len(start), np.bool_),
    )


def _called(
    names: Names, events: Events, finding_of: Mapping[str, str], ops: pd.DataFrame
) -> tuple[_Names, NDArray[np.int64]]:
    """Return the distinct events, of too many the longest by name; and which each event is."""
    took = np.bincount(events.what, events.end_ps - events.start_ps, len(names.names))
    used = np.bincount(events.what, minlength=len(names.names)) > 0
    order = np.argsort(-np.where(used, took, -1.0), kind="stable")
    kept = order[: min(_MOST_NAMES, int(used.sum()))]
    number = {finding: k for k, finding in enumerate(dict.fromkeys(finding_of.values()))}
    finding = np.array(
        [number.get(finding_of.get(n.op_id or "", ""), -1) for n in names.names], np.int64
    )
    kind = np.array([n.kind for n in names.names], np.int64)
    rest = np.setdiff1d(np.flatnonzero(used), kept)
    code, keys = pd.factorize(kind[rest] << 32 | (finding[rest] + 1))
    place = np.full(len(names.names), -1, np.int64)
    place[kept] = np.arange(len(kept))
    place[rest] = len(kept) + code
    named = [names.names[k] for k in kept.tolist()]
    unnamed: list[str | None] = [None] * len(keys)
    op_names = _op_names(ops, [n.op_id for n in named if n.op_id is not None])
    return (
        _Names(
            name=[None if n.name is None else cut(n.name, _NAME_LENGTH) for n in named] + unnamed,
            kind=np.concatenate([kind[kept], keys >> 32]).astype(np.int64),
            op_id=[n.op_id for n in named] + unnamed,
            op=[None if n.op_id is None else op_names.get(n.op_id) for n in named] + unnamed,
            finding=np.concatenate([finding[kept], (keys & 0xFFFFFFFF) - 1]).astype(np.int64),
        ),
        place[events.what],
    )


def _op_names(ops: pd.DataFrame, op_ids: Sequence[str]) -> dict[str, str]:
    rows = ops[ops["op_id"].isin(set(op_ids))]
    texts = zip(rows["op_id"], rows["name"].astype(str), rows["type"].astype(str), strict=True)
    return {op_id: cut(op_label(name, of_type), _NAME_LENGTH) for op_id, name, of_type in texts}


def _unit_ns(events: Events) -> int:
    """Return the unit in which times fit into 31 bits: a nanosecond for runs below two seconds."""
    end_ns = int(events.end_ps.max()) // 1000
    fitting: list[int] = [u for u in _UNITS_NS if end_ns // u < _MOST_UNITS]
    return fitting[0] if fitting else _UNITS_NS[-1]


def _fitted(
    events: Events, called: _Names, unit_ns: int, most_bytes: int
) -> tuple[Events, int | None, Kinds]:
    """Return as many events as fit, the threshold below which they are merged, and their kinds."""
    own = Kinds(called.kind, called.finding)
    room = _room(events, unit_ns, most_bytes)
    # Events that stay take more room than merged ones: a first guess.
    most = _MOST_EVENTS if len(events.start_ps) <= room else min(_MOST_EVENTS, int(room * 0.8))
    # Events of findings are never merged, unless they are most of all events.
    is_marked = called.finding[events.what] >= 0
    if np.count_nonzero(is_marked) <= most * _MARKED_SHARE:
        events = events._replace(stays=is_marked)
    if len(events.start_ps) <= most:
        return events, None, own
    joined = joined_from(events)
    for _ in range(_TRIES):
        below_ps = threshold(joined, most)
        fitted, kinds = together(events, below_ps, own)
        room = _room(fitted, unit_ns, most_bytes)
        if len(fitted.start_ps) <= room:
            break
        most = min(room, len(fitted.start_ps) - 1)
    return fitted, below_ps, kinds


def _room(events: Events, unit_ns: int, most_bytes: int) -> int:
    """Return how many events like these fit."""
    stretches, rows = _SAMPLE
    n = len(events.start_ps)
    if n <= stretches * rows:
        return _MOST_EVENTS
    at = np.linspace(0, n - rows, stretches).astype(np.int64)
    own = (at[:, None] + np.arange(rows)).ravel()
    sample = Events(np.array([0]), *(column[own] for column in events[1:]))
    columns = {name: Numbers(column) for name, column in _columns(sample, unit_ns).items()}
    return int(most_bytes * len(own) / len(pack(columns, n, level=_LEVEL).data))


def _columns(events: Events, unit_ns: int) -> dict[str, NDArray[np.int64]]:
    unit_ps = 1000 * unit_ns
    start = (events.start_ps + unit_ps // 2) // unit_ps
    end = (events.end_ps + unit_ps // 2) // unit_ps
    before = np.concatenate([[0], end[:-1]])
    before[events.begin[events.begin < len(start)]] = 0
    return {
        "gap": start - before,
        "duration": end - start,
        "what": events.what,
        "count": events.number,
    }


def _packed(events: Events, unit_ns: int, total: int) -> PackedTable:
    columns = _columns(events, unit_ns)
    return pack({name: Numbers(column) for name, column in columns.items()}, total, level=_LEVEL)


def _packed_names(called: _Names, kinds: Kinds, findings: Sequence[str]) -> PackedTable:
    """Pack the distinct events; if too many, those that took least time lose their names."""
    named = len(called.name)
    packed = _packed_first(named, called, kinds, findings)
    while len(packed.data) > _MOST_NAME_BYTES and named > 1:
        named = max(1, int(named * 0.95 * _MOST_NAME_BYTES / len(packed.data)))
        packed = _packed_first(named, called, kinds, findings)
    return packed


def _packed_first(named: int, called: _Names, kinds: Kinds, findings: Sequence[str]) -> PackedTable:
    unnamed = [None] * (len(kinds.kind) - named)
    return pack(
        {
            "name": _texts([*called.name[:named], *unnamed]),
            "kind": Texts(kinds.kind, KINDS),
            "op_id": _texts([*called.op_id[:named], *unnamed]),
            "op": _texts([*called.op[:named], *unnamed]),
            "finding_id": Texts(kinds.finding, findings),
        },
        len(kinds.kind),
    )


def _texts(values: Sequence[str | None]) -> Texts:
    codes, texts = pd.factorize(np.array(values, dtype=object))
    known: Any = texts.tolist()
    return Texts(codes, known)


def _lane(found: _Found, origin_ps: int, rows: int, total: int) -> EventLane:
    host, lane = found
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
        rows=int(rows),
        events_total=int(total),
        busy_us=lane.busy_ps / PS_PER_US,
        begin_us=None if begin_ps is None else (begin_ps + lane.shift_ps - origin_ps) / PS_PER_US,
    )
