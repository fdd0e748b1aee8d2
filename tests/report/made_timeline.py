"""Timelines written by hand, of the sort that a run on a GPU leaves."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from traceanalyzer.lanes import KINDS
from traceanalyzer.model.figures import EventLane, EventTimeline, LaneKind
from traceanalyzer.report.packed import Numbers, Texts, pack


class Made(NamedTuple):
    """An event: when, in microseconds, and what."""

    start_us: float
    duration_us: float
    name: str | None
    kind: str
    op_id: str | None = None


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
    events = [event for lane in lanes for event in lane.events]
    things = list(dict.fromkeys((e.name, e.kind, e.op_id) for e in events))
    start, took = (np.round(1000 * np.array([e[k] for e in events])).astype(int) for k in (0, 1))
    before = np.concatenate([[0], (start + took)[:-1]])
    before[np.cumsum([0, *(len(lane.events) for lane in lanes[:-1])])] = 0
    columns = {
        "gap": start - before,
        "duration": took,
        "what": np.array([things.index((e.name, e.kind, e.op_id)) for e in events]),
        "count": np.ones(len(events), int),
    }
    names, kinds, op_ids = zip(*things, strict=True)
    return EventTimeline(
        unit_ns=1,
        lanes=tuple(
            EventLane(
                host=lane.host,
                name=lane.name,
                kind=lane.kind,
                device=lane.device,
                is_program=lane.is_program,
                rows=len(lane.events),
                events_total=len(lane.events),
            )
            for lane in lanes
        ),
        lanes_total=len(lanes),
        names=pack(
            {
                "name": _texts(names),
                "kind": Texts(np.array([KINDS.index(kind) for kind in kinds]), KINDS),
                "op_id": _texts(op_ids),
                "op": _texts([n if i else None for n, i in zip(names, op_ids, strict=True)]),
            },
            len(things),
        ),
        events=pack({name: Numbers(column) for name, column in columns.items()}, len(events)),
        events_total=len(events),
        merged_total=0,
        merged_below_us=None,
    )


def _texts(values: Sequence[str | None]) -> Texts:
    known = list(dict.fromkeys(value for value in values if value is not None))
    return Texts(np.array([-1 if v is None else known.index(v) for v in values]), known)
