"""Shifts the times of a trace to a clock on which they fit into 64 bits.

By definition, `XLine.timestamp_ns` counts from the UNIX epoch. TensorFlow subtracts the start of
the profile before it writes a file. Other writers do not, and dates in picoseconds overflow int64.
"""

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.trace.columns import NO_STAT, Plane, Trace

LONGEST_PS: Final = 2**57  # 40 hours: no event of a profile lasts longer or is further from others
_LONGEST_NS: Final = LONGEST_PS // 1000


def on_one_clock(trace: Trace, near_ns: int = 0) -> Trace:
    """Return the trace with times that can be added and subtracted without overflow.

    Times that fit are unchanged. Other times are shifted to start at the first event. Events with
    impossible times are left out and counted in `Trace.impossible_events`.

    Args:
        trace: The trace as decoded, with times wrapped to 64 bits.
        near_ns: The `Trace.origin_ns` of another host of the run. It is reused if the times fit.
    """
    if all(_fits(plane) for plane in trace.planes):
        return trace
    # When each event starts, to a microsecond: float64 does not wrap.
    at_ns = [
        plane.lines.timestamp_ns.astype(np.float64)[plane.line_of] + _offsets(plane) / 1000
        for plane in trace.planes
    ]
    every_ns = np.concatenate(at_ns)
    middle_ns = float(np.partition(every_ns, len(every_ns) // 2)[len(every_ns) // 2])
    origin_ns = next((ns for ns in (0, near_ns) if abs(middle_ns - ns) <= _LONGEST_NS / 2), None)
    if origin_ns is None:
        near = np.abs(every_ns - middle_ns) <= _LONGEST_NS / 2
        origin_ns = min(max(int(every_ns[near].min()), -(2**63)), 2**63 - 1)
    planes, emptied = [], list(trace.emptied_planes)
    impossible = trace.impossible_events
    for plane, at in zip(trace.planes, at_ns, strict=True):
        possible = np.abs(at - origin_ns) <= _LONGEST_NS
        possible &= (plane.duration_ps >= 0) & (plane.duration_ps <= LONGEST_PS)
        impossible += int(np.count_nonzero(~possible))
        emptied += [plane.name] if len(plane) and not possible.any() else []
        planes.append(_only(_moved(plane, origin_ns), possible))
    return replace(
        trace,
        planes=tuple(planes),
        origin_ns=origin_ns,
        impossible_events=impossible,
        emptied_planes=tuple(emptied),
    )


def _fits(plane: Plane) -> bool:
    if not len(plane):
        return True
    at_ns = plane.lines.timestamp_ns[np.diff(plane.lines.event_begin) > 0]
    times = (
        (at_ns, -_LONGEST_NS, _LONGEST_NS),
        (plane.start_ps, -LONGEST_PS, LONGEST_PS),
        (plane.duration_ps, 0, LONGEST_PS),
    )
    return all(values.min() >= low and values.max() <= high for values, low, high in times)


def _offsets(plane: Plane) -> NDArray[np.int64]:
    """Return each event's start relative to its line. This undoes any overflow of `start_ps`."""
    return plane.start_ps - (plane.lines.timestamp_ns * 1000)[plane.line_of]


def _moved(plane: Plane, origin_ns: int) -> Plane:
    # Times that do not fit wrap; these events are left out.
    moved_ns = plane.lines.timestamp_ns - np.int64(origin_ns)
    start_ps = _offsets(plane) + (moved_ns * 1000)[plane.line_of]
    return replace(plane, lines=replace(plane.lines, timestamp_ns=moved_ns), start_ps=start_ps)


def _only(plane: Plane, chosen: NDArray[np.bool_]) -> Plane:
    if chosen.all():
        return plane
    left_out = np.repeat(~chosen, np.diff(plane.stat_begin))
    own = plane.stats.id[plane.stat_begin[0] : plane.stat_begin[-1]]
    own[left_out] = NO_STAT[own.dtype]  # they now belong to the event before
    kept = np.concatenate([[0], np.cumsum(chosen)])
    return replace(
        plane,
        lines=replace(plane.lines, event_begin=kept[plane.lines.event_begin]),
        metadata_id=plane.metadata_id[chosen],
        start_ps=plane.start_ps[chosen],
        duration_ps=plane.duration_ps[chosen],
        occurrences=None if plane.occurrences is None else plane.occurrences[chosen],
        stat_begin=np.append(plane.stat_begin[:-1][chosen], plane.stat_begin[-1]),
    )
