"""What the width of a copy stands for: its bytes, its time or how often it was made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

from traceanalyzer.format import duration, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MeasureId: TypeAlias = Literal["bytes", "time", "count"]


class Copied(Protocol):
    """Copies shown as one: an edge of the copy graph, or a flow between groups."""

    @property
    def bytes(self) -> int | None:
        """The bytes of copies of known size; None if no size is known."""

    @property
    def count(self) -> int:
        """How many copies."""

    @property
    def total_us(self) -> float | None:
        """The time they took, as far as it is known."""


@dataclass(frozen=True)
class Measure:
    """Something that copies have more or less of."""

    id: MeasureId
    choice: str  # as a reader chooses it
    caption: str

    def of(self, copied: Copied) -> float | None:
        """Return the amount of copies in this measure; None if unknown."""
        value = {"bytes": copied.bytes, "time": copied.total_us, "count": copied.count}[self.id]
        # Time may be anything in a broken trace; nothing is less wide than nothing.
        return None if value is None or not math.isfinite(value) else max(0.0, float(value))


MEASURES: Final = (
    Measure("bytes", "Bytes", "A band is as wide as its bytes; a dashed one has an unknown size."),
    Measure("time", "Copy time", "A band is as wide as its copies took; a dashed one is unknown."),
    Measure("count", "Copies", "A band is as wide as the number of its copies."),
)


def known_measures(copied: Sequence[Copied]) -> tuple[Measure, ...]:
    """Return the measures that are known of any of these copies; of some copies, at least one."""
    return tuple(m for m in MEASURES if any(m.of(one) is not None for one in copied))


@dataclass(frozen=True)
class Amount:
    """Sums over copies. Bytes and time are None if unknown for all copies."""

    bytes: int | None
    unsized: int  # copies whose size is not known
    count: int
    total_us: float | None

    @property
    def size(self) -> str:
        """The bytes, in words."""
        if self.bytes is None:
            return "size unknown"
        return f"{'≥ ' if self.unsized else ''}{size(self.bytes)}"

    @property
    def time(self) -> str:
        """The time, in words."""
        return "time unknown" if self.total_us is None else str(duration(self.total_us))

    @property
    def copies(self) -> str:
        """The number of copies, in words."""
        return copies_of(self.count)

    @property
    def words(self) -> str:
        """All sums, with exact sizes."""
        if self.bytes is None:
            how_much = self.size
        else:
            how_much = f"{'at least ' if self.unsized else ''}{size(self.bytes).exact}"
        return f"{how_much}, {self.count:,} {_plural(self.count)}, copy {self._long_time}"

    @property
    def _long_time(self) -> str:
        return self.time if self.total_us is None else f"time {self.time}"

    def by(self, measure: Measure) -> str:
        """Return the sum that a measure shows, in words."""
        return {"bytes": self.size, "time": self.time, "count": self.copies}[measure.id]


def amount(copied: Iterable[Copied], unsized: int | None = None) -> Amount:
    """Return the sums over copies."""
    every = tuple(copied)
    sizes = [one.bytes for one in every if one.bytes is not None]
    times = [one.total_us for one in every if one.total_us is not None]
    lacking = sum(one.count for one in every if one.bytes is None)
    return Amount(
        bytes=sum(sizes) if sizes else None,
        unsized=lacking if unsized is None else unsized,
        count=sum(one.count for one in every),
        total_us=sum(times) if times else None,
    )


def copies_of(count: int) -> str:
    """Return a number of copies in few characters."""
    for unit, factor in (("T", 10**12), ("G", 10**9), ("M", 10**6)):
        if count >= factor:
            return f"{count // factor:,} {unit} copies"
    return f"{count:,} {_plural(count)}"


def _plural(count: int) -> str:
    return "copy" if count == 1 else "copies"
