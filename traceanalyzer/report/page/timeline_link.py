"""Links that lead to a place in the timeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from traceanalyzer.model import TraceWhere
from traceanalyzer.report.packed import unpack
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from traceanalyzer.model import Report, Where
    from traceanalyzer.model.times import EventLane, IdleGap

_MARGIN: Final = 0.5  # of the place's own length, on either side
_NARROWEST_US: Final = 10.0


@dataclass(frozen=True)
class TimelinePlace:
    """A place in the timeline: a stretch of time on a line of the trace, or the whole line."""

    link: str  # `#timeline`, and the time range
    lanes: tuple[int, ...]  # indices
    from_us: float | None = None  # from the run's first event; None for the whole line
    to_us: float | None = None


def timeline_place(report: Report, where: Where | None) -> TimelinePlace | None:
    """Return where in the timeline a place of the trace is; None if it is not shown."""
    if report.trace is None or not isinstance(where, TraceWhere) or where.line is None:
        return None
    lanes = [(k, lane) for k, lane in enumerate(report.trace.lanes) if _is_of(lane, where)]
    begins = {lane.begin_us for _, lane in lanes}
    if len(begins) != 1:
        return None  # not shown, or several lines of that name
    indices = tuple(k for k, _ in lanes)
    (begin_us,) = begins
    if where.offset_ps is None or begin_us is None:
        return TimelinePlace("#timeline", indices)
    start_us = begin_us + where.offset_ps / PS_PER_US
    took_us = (where.duration_ps or 0) / PS_PER_US
    return TimelinePlace(place_link(start_us, took_us), indices, start_us, start_us + took_us)


def _is_of(lane: EventLane, where: TraceWhere) -> bool:
    is_line = lane.name == where.line and lane.plane == where.plane
    return is_line and where.host in (None, lane.host)


def gap_lanes(report: Report, gap: IdleGap) -> tuple[int, ...]:
    """Return the lanes that a gap is on: the streams of its device, or the program's own thread."""
    lanes = () if report.trace is None else report.trace.lanes
    return tuple(
        k
        for k, lane in enumerate(lanes)
        if lane.host == gap.host
        and (lane.is_program if gap.device is None else lane.device == gap.device)
    )


def place_link(start_us: float, duration_us: float) -> str:
    """Return a link to a stretch of time, with some of what is around it."""
    start_us, duration_us = start_us or 0.0, duration_us or 0.0  # no finite number is None
    margin = max(duration_us * _MARGIN, _NARROWEST_US / 2)
    first, last = max(0.0, start_us - margin), max(0.0, start_us + duration_us) + margin
    return f"#timeline&time.view={first:.3f}-{last:.3f}"


def findings_shown(report: Report) -> frozenset[str]:
    """Return the ids of the findings that have events in the timeline."""
    if report.trace is None:
        return frozenset()
    return frozenset(str(f) for f in unpack(report.trace.names)["finding_id"] if f is not None)


def finding_query(finding_id: str) -> str:
    """Return the query that finds a finding's events in the timeline and its ops in the table.

    It is quoted for an address: `#timeline&time.find=QUERY`, `#ops&ops.q=QUERY`.
    """
    return quote(f"finding:{finding_id}", safe="", errors="surrogatepass")
