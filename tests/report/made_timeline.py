"""Timelines written by hand, of the sort that a run on a GPU leaves."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from traceanalyzer.model.figures import EventLane, EventTimeline
from traceanalyzer.report.lanes import KINDS
from traceanalyzer.report.packed import Numbers, Texts, pack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.model import PackedTable
    from traceanalyzer.model.figures import LaneKind


class Made(NamedTuple):
    """An event: when, in microseconds, and what."""

    start_us: float
    duration_us: float
    name: str | None
    kind: str
    op_id: str | None = None
    count: int = 1


class MadeLane(NamedTuple):
    """A lane and its events, by start."""

    host: str
    name: str
    kind: LaneKind
    events: Sequence[Made]
    device: str | None = None
    is_program: bool = False


def made_timeline(lanes: Sequence[MadeLane]) -> EventTimeline:
    """A timeline of these lanes, in nanoseconds."""
    things: dict[tuple[str | None, ...], int] = {}
    gap, duration, what, count = [], [], [], []
    end = 0
    for lane in lanes:
        before = 0
        for event in lane.events:
            start = round(1000 * event.start_us)
            took = round(1000 * event.duration_us)
            key = (event.name, event.kind, event.op_id)
            gap.append(start - before)
            duration.append(took)
            what.append(things.setdefault(key, len(things)))
            count.append(event.count)
            before = start + took
            end = max(end, before)
    columns = {"gap": gap, "duration": duration, "what": what, "count": count}
    names = [*zip(*things, strict=True)] or [(), (), ()]
    return EventTimeline(
        unit_ns=1,
        end_us=end / 1000,
        lanes=tuple(
            EventLane(
                host=lane.host,
                name=lane.name,
                kind=lane.kind,
                device=lane.device,
                plane=lane.device or "/host:CPU",
                is_program=lane.is_program,
                rows=len(lane.events),
                events_total=sum(event.count for event in lane.events),
                busy_us=sum(event.duration_us for event in lane.events),
                begin_us=0.0,
            )
            for lane in lanes
        ),
        lanes_total=len(lanes),
        names=_names(names),
        events=pack(
            {name: Numbers(np.array(values, np.int64)) for name, values in columns.items()},
            sum(count),
        ),
        events_total=sum(count),
        merged_total=sum(c for c in count if c > 1),
        merged_below_us=None if max(count, default=1) == 1 else 1.0,
    )


def _names(columns: Sequence[Sequence[str | None]]) -> PackedTable:
    name, kind, op_id = columns
    kinds = Texts(np.array([KINDS.index(str(k)) for k in kind], np.int64), KINDS)
    return pack(
        {
            "name": _texts(name),
            "kind": kinds,
            "op_id": _texts(op_id),
            "op": _texts([n if i else None for n, i in zip(name, op_id, strict=True)]),
        },
        len(name),
    )


def _texts(values: Sequence[str | None]) -> Texts:
    known = list(dict.fromkeys(value for value in values if value is not None))
    return Texts(np.array([-1 if v is None else known.index(v) for v in values], np.int64), known)


def with_many_events(diagnosis: Diagnosis, count: int) -> Diagnosis:
    """The diagnosis of a run of one host, its threads having done so many things."""
    (host,) = diagnosis.run.hosts
    old = host.tables.threads
    assert old is not None
    random = np.random.default_rng(7)
    threads = 8
    each = count // threads
    begin = np.arange(threads + 1, dtype=np.int64) * each
    took = random.integers(500_000, 30_000_000, each * threads)
    gaps = random.integers(0, 2_000_000, each * threads)
    end = np.cumsum((took + gaps).reshape(threads, each), axis=1).ravel()
    lanes = replace(
        old,
        name=("python", *(f"tf_Compute/{k}" for k in range(1, threads))),
        is_program=np.arange(threads) == 0,
        step_thread=np.zeros_like(old.step_thread),
        begin=begin,
        start_ps=end - took,
        end_ps=end,
        state=random.integers(0, 5, each * threads).astype(np.uint8),
        row=random.integers(-1, len(host.tables.ops), each * threads).astype(np.int32),
        event=np.zeros(each * threads, np.int32),
        call=np.zeros(each * threads, np.int64),
    )
    busy = replace(host, tables=replace(host.tables, threads=lanes), start_ps=0)
    return replace(diagnosis, run=replace(diagnosis.run, hosts=(busy,)))
