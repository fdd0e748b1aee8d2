"""Links that lead to a place in the timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from traceanalyzer.report.packed import unpack

if TYPE_CHECKING:
    from traceanalyzer.model import Report, TraceWhere

__all__ = ["finding_query", "findings_shown", "place_link", "timeline_link"]

_PS_PER_US: Final = 1e6
_MARGIN: Final = 0.5  # of the place's own length, on either side
_NARROWEST_US: Final = 10.0


def timeline_link(report: Report, where: TraceWhere) -> str | None:
    """Return a link to a place in the trace, or None where the timeline does not show it.

    Args:
        report: The report.
        where: The place: the offset counts from where its line begins (`EventLane.begin_us`).

    Returns:
        `#timeline&time.view=FROM-TO`, in microseconds from the run's first event.
    """
    if report.trace is None or where.offset_ps is None or where.line is None:
        return None
    found = [
        lane.begin_us
        for lane in report.trace.lanes
        if lane.begin_us is not None
        and lane.name == where.line
        and lane.plane == where.plane
        and where.host in (None, lane.host)
    ]
    if len(set(found)) != 1:
        return None  # not shown, or several lines of that name
    start_us = found[0] + where.offset_ps / _PS_PER_US
    return place_link(start_us, (where.duration_ps or 0) / _PS_PER_US)


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
    """Return what the timeline and the table of ops are searched with for a finding's own.

    As it stands in an address: `#timeline&time.find=QUERY`, `#ops&ops.q=QUERY`.
    """
    return quote(f"finding:{finding_id}", safe="", errors="surrogatepass")
