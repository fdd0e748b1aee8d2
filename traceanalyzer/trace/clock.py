"""Leaves out events at impossible times, which would overflow sums of picoseconds in int64.

By definition, `XLine.timestamp_ns` counts from the UNIX epoch. TensorFlow and JAX subtract the
start of the profile before they write a file.
"""

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.trace.columns import NO_STAT, Plane, Trace

LONGEST_PS: Final = 2**57  # 40 hours: no event of a profile is longer or later


def without_impossible(trace: Trace) -> Trace:
    """Return the trace without such events; `Trace.impossible_events` counts them.

    `trace` is as decoded, with times wrapped to 64 bits.
    """
    planes, left_out = [], 0
    for plane in trace.planes:
        is_near = _is_within(plane.lines.timestamp_ns, LONGEST_PS // 1000)[plane.line_of]
        possible = is_near & _is_within(plane.start_ps, LONGEST_PS)
        possible &= (plane.duration_ps >= 0) & (plane.duration_ps <= LONGEST_PS)
        left_out += int(np.count_nonzero(~possible))
        planes.append(_only(plane, possible))
    return replace(trace, planes=tuple(planes), impossible_events=left_out) if left_out else trace


def _is_within(values: NDArray[np.int64], limit: int) -> NDArray[np.bool_]:
    return (values >= -limit) & (values <= limit)


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
