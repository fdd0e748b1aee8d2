"""The picture of memory in use over time, as plain geometry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from traceanalyzer.report.packed import Numbers, pack
from traceanalyzer.report.page.axes import Tick, size_ticks, time_ticks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.model import PackedTable
    from traceanalyzer.model.resources import AllocatorMemory, Memory

WIDTH: Final = 100.0
HEIGHT: Final = 40.0
_DECIMALS: Final = 2
_NEAR: Final = 0.4  # of the limit: what stays below leaves the limit out of the picture
_LEAST_TO_DRAW: Final = 2


@dataclass(frozen=True)
class MemoryLine:
    """What an allocator had in use as steps, over the width 0 to 100 and the height 0 to 40."""

    line: str  # path data
    area: str  # path data of the area below
    peak_x: float
    peak_y: float
    limit_y: float | None  # None if unknown or far above
    lowest_bytes: int
    highest_bytes: int
    top_bytes: int  # at height 0: the most in use, or the limit
    start_us: float
    end_us: float
    ticks: tuple[Tick, ...]
    labels: tuple[Tick, ...]


def memory_span(memory: Memory) -> tuple[float, float] | None:
    """Return the first and the last moment of all allocators: their pictures share an axis."""
    moments = [at_us for allocator in memory.allocators for at_us, _ in _points(allocator)]
    return (min(moments), max(moments)) if moments else None


def memory_line(
    allocator: AllocatorMemory, span: tuple[float, float] | None = None
) -> MemoryLine | None:
    """Return the picture; None if fewer than two moments were recorded or nothing was in use."""
    points = _points(allocator)
    highest = max((size for _, size in points), default=0)
    if len(points) < _LEAST_TO_DRAW or highest <= 0:
        return None
    start, end = span or (points[0][0], points[-1][0])
    if points[-1][0] <= points[0][0] or end <= start:
        return None
    limit = allocator.limit_bytes
    is_near = limit is not None and _NEAR * limit <= highest <= limit
    top = limit if limit is not None and is_near else highest
    drawn = [
        (
            round(WIDTH * (at_us - start) / (end - start), _DECIMALS),
            round(HEIGHT * (1 - size / top), _DECIMALS),
        )
        for at_us, size in points
    ]
    # What was in use stays so until the next record: to the right first, then up or down.
    steps = "".join(f"H{x:g}V{y:g}" for x, y in drawn[1:])
    line = f"M{drawn[0][0]:g} {drawn[0][1]:g}{steps}"
    at_peak = next(k for k, (_, size) in enumerate(points) if size == highest)
    return MemoryLine(
        line=line,
        area=f"{line}V{HEIGHT:g}H{drawn[0][0]:g}Z",
        peak_x=drawn[at_peak][0],
        peak_y=drawn[at_peak][1],
        limit_y=0.0 if is_near else None,
        lowest_bytes=min(size for _, size in points),
        highest_bytes=highest,
        top_bytes=top,
        start_us=points[0][0],
        end_us=points[-1][0],
        ticks=size_ticks(top),
        labels=time_ticks(end - start, parts=2),
    )


def memory_data(memory: Memory, allocators: int) -> PackedTable | None:
    """Return the first allocators' records for the charts that scripts draw; None without any."""
    records = [
        (index, at_us, size)
        for index, allocator in enumerate(memory.allocators[:allocators])
        for at_us, size in _points(allocator)
    ]
    if not records:
        return None
    index, at_us, size = (np.array(column) for column in zip(*records, strict=True))
    columns: dict[str, Any] = {
        "allocator": Numbers(index),
        "at_us": Numbers(at_us, per=1000),
        "bytes": Numbers(size),
    }
    return pack(columns, len(records))


def _points(allocator: AllocatorMemory) -> Sequence[tuple[float, int]]:
    return [
        (float(at_us), int(size))
        for at_us, size in allocator.timeline.rows
        if isinstance(at_us, int | float) and isinstance(size, int | float)
    ]
