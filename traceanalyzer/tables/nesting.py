"""Which event encloses which, within a line: the events of a line nest and do not cross."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.native import events
from traceanalyzer.native.events import sum_by

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.trace.columns import Plane


def in_line_order(plane: Plane) -> NDArray[np.int64]:
    """Return the plane's events line by line, by start, an enclosing event before its content.

    Each line keeps the range of `Lines.event_begin`.
    """
    order = np.arange(len(plane), dtype=np.int64)
    bounds = plane.lines.event_begin
    for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        start, duration = plane.start_ps[begin:end], plane.duration_ps[begin:end]
        step = np.diff(start)
        if (step > 0).all() or (
            (step >= 0).all() and (duration[1:] < duration[:-1])[step == 0].all()
        ):
            continue  # as TensorFlow mostly writes them
        order[begin:end] = begin + np.lexsort((-duration, start))
    return order


def nested(plane: Plane, order: NDArray[np.int64]) -> events.Nested:
    """Return the plane's events for native code, `order` as from `in_line_order`."""
    return events.Nested(order, plane.lines.event_begin, plane.start_ps, plane.end_ps)


def innermost(
    plane: Plane, order: NDArray[np.int64], is_container: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return the innermost container around each event, -1 for none.

    Args:
        plane: The plane.
        order: As from `in_line_order`.
        is_container: Which events count as containers, one flag an event.
    """
    if not is_container.any():
        return np.full(len(plane), -1, np.int64)
    return events.innermost(nested(plane, order), is_container)


def by_line(plane: Plane, event: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return some events line by line, by start, an enclosing event before its content."""
    start, duration = plane.start_ps[event], plane.duration_ps[event]
    return event[np.lexsort((-duration, start, plane.line_of[event]))]


def is_outermost(plane: Plane, event: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which of some events no other of them encloses, given in the order of `by_line`."""
    line, start, end = plane.line_of[event], plane.start_ps[event], plane.end_ps[event]
    outer = np.ones(len(event), np.bool_)
    bounds = np.concatenate([[0], np.flatnonzero(np.diff(line)) + 1, [len(event)]])
    for begin, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        if stop - begin > 1:
            latest = np.maximum.accumulate(end[begin:stop])[:-1]
            outer[begin + 1 : stop] = start[begin + 1 : stop] >= latest
    return outer


def self_durations(duration_ps: NDArray[np.int64], parent: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return each event's duration without its children's; `parent` is -1 for none."""
    children = sum_by(parent, duration_ps, len(duration_ps))
    own: NDArray[np.int64] = np.maximum(duration_ps - children, 0)
    return own
