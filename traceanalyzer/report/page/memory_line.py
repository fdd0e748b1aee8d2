"""The picture of memory in use over time, as plain geometry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from traceanalyzer.model import AllocatorMemory

__all__ = ["MemoryLine", "memory_line"]

WIDTH: Final = 100.0
HEIGHT: Final = 40.0
_DECIMALS: Final = 2


@dataclass(frozen=True)
class MemoryLine:
    """What an allocator had in use as steps, over the width 0 to 100 and the height 0 to 40.

    Attributes:
        line: The path of the line.
        area: The path of what lies below it.
        peak_x: Where the peak is.
        lowest_bytes: The least that is drawn.
        highest_bytes: The most, which is at the height 0.
        start_us: Where the line begins.
        end_us: Where it ends.
    """

    line: str
    area: str
    peak_x: float
    lowest_bytes: int
    highest_bytes: int
    start_us: float
    end_us: float


def memory_line(allocator: AllocatorMemory) -> MemoryLine | None:
    """Return the picture, or None where fewer than two moments are told or nothing was in use."""
    points = [
        (float(at_us), int(size))
        for at_us, size in allocator.timeline.rows
        if isinstance(at_us, int | float) and isinstance(size, int | float)
    ]
    highest = max((size for _, size in points), default=0)
    start, end = (points[0][0], points[-1][0]) if points else (0.0, 0.0)
    if highest <= 0 or end <= start:
        return None
    drawn = [
        (
            round(WIDTH * (at_us - start) / (end - start), _DECIMALS),
            round(HEIGHT * (1 - size / highest), _DECIMALS),
        )
        for at_us, size in points
    ]
    # What was in use stays so until the next record: to the right first, then up or down.
    steps = "".join(f"H{x:g}V{y:g}" for x, y in drawn[1:])
    line = f"M{drawn[0][0]:g} {drawn[0][1]:g}{steps}"
    at_peak = next(x for (x, _), (_, size) in zip(drawn, points, strict=True) if size == highest)
    return MemoryLine(
        line=line,
        area=f"{line}V{HEIGHT:g}H0Z",
        peak_x=at_peak,
        lowest_bytes=min(size for _, size in points),
        highest_bytes=highest,
        start_us=start,
        end_us=end,
    )
