"""Which event encloses which, within a line: the events of a line nest and do not cross."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.trace._jit import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.trace.columns import Plane

__all__ = ["in_line_order", "innermost", "self_durations", "sum_by"]


def in_line_order(plane: Plane) -> NDArray[np.int64]:
    """Return the plane's events line by line, by start, an enclosing event before what it encloses.

    Returns:
        Event indices, int64; each line keeps the range of `Lines.event_begin`.
    """
    order = np.arange(len(plane), dtype=np.int64)
    bounds = plane.lines.event_begin
    for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        start, duration = plane.start_ps[begin:end], plane.duration_ps[begin:end]
        step = np.diff(start)
        if (step > 0).all() or ((step >= 0).all() and (duration[1:] < duration[:-1])[step == 0].all()):
            continue  # as TensorFlow mostly writes them
        order[begin:end] = begin + np.lexsort((-duration, start))
    return order


@jit
def _innermost(order, line_begin, start, end, is_container, out):  # type: ignore[no-untyped-def]
    stack = np.empty(64, np.int64)
    for line in range(len(line_begin) - 1):
        depth = 0
        for k in range(line_begin[line], line_begin[line + 1]):
            e = order[k]
            # An event without duration belongs to the one it begins with, not to one that has ended.
            while depth > 0 and end[stack[depth - 1]] <= start[e]:
                if end[e] == start[e] and end[stack[depth - 1]] == start[e]:
                    break
                depth -= 1
            out[e] = stack[depth - 1] if depth > 0 else -1
            if is_container[e]:
                if depth == len(stack):
                    grown = np.empty(2 * depth, np.int64)
                    grown[:depth] = stack
                    stack = grown
                stack[depth] = e
                depth += 1


def innermost(
    plane: Plane, order: NDArray[np.int64], is_container: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return the innermost enclosing container of each event.

    Args:
        plane: The plane.
        order: As from `in_line_order`.
        is_container: Which events count as enclosing, one flag an event.

    Returns:
        Index of the container of each event, -1 for none; int64.
    """
    out = np.empty(len(plane), np.int64)
    _innermost(
        order, plane.lines.event_begin, plane.start_ps, plane.end_ps, is_container, out
    )
    return out


def self_durations(
    duration_ps: NDArray[np.int64], parent: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return each event's duration less that of its children, int64.

    Args:
        duration_ps: Duration of each event, int64.
        parent: Index of each event's parent in the same arrays, -1 for none.
    """
    children = sum_by(parent, duration_ps, len(duration_ps))
    return np.maximum(duration_ps - children, 0)


@jit
def _sum_by(codes, values, out):  # type: ignore[no-untyped-def]
    for k in range(len(codes)):
        if codes[k] >= 0:
            out[codes[k]] += values[k]


def sum_by(
    codes: NDArray[np.int64], values: NDArray[np.int64], size: int
) -> NDArray[np.int64]:
    """Sum `values` for each code, exactly; negative codes are left out.

    Returns:
        The sums, int64, one for each code below `size`.
    """
    out = np.zeros(size, np.int64)
    _sum_by(codes.astype(np.int64, copy=False), values, out)
    return out
