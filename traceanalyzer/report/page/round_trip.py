"""A round trip as a picture: from a GPU to ops on the CPU and back to one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceanalyzer.format import size
from traceanalyzer.report.page.copy_measures import copies_of
from traceanalyzer.report.page.svg_text import Label, label

if TYPE_CHECKING:
    from traceanalyzer.model import Report
    from traceanalyzer.model.transfers import Island, IslandCopies

_SHOWN: Final = 24
_NARROWEST, _WIDEST = 2.0, 14.0
_GPU: Final = 40.0
_OPS: Final = 100.0
WIDTH: Final = 344.0
HEIGHT: Final = 58.0


@dataclass(frozen=True)
class Crossing:
    """The copies one way, as an arrow."""

    x_from: float
    x_to: float
    width: float
    head: str
    amount: str
    copies: str
    middle: float  # where its label is centred
    is_measured: bool


@dataclass(frozen=True)
class RoundTrip:
    """A round trip's picture."""

    names: tuple[Label, ...]  # of ops, and of how many more there are
    title: str
    arriving: Crossing
    leaving: Crossing


def round_trips(report: Report) -> tuple[RoundTrip, ...]:
    """Return the pictures of the first round trips, all arrows by one scale."""
    shown = report.islands[:_SHOWN]
    copies = [c for island in shown for c in (island.arriving, island.leaving)]
    largest = max((c.bytes for c in copies if c.bytes is not None), default=0)
    return tuple(_round_trip(island, largest) for island in shown)


def _round_trip(island: Island, largest: int) -> RoundTrip:
    known = [op.type for op in island.ops] or list(island.unseen)
    shown = known[:3] if island.ops_total <= 3 else known[:2]  # noqa: PLR2004 - lines of the box
    rest = island.ops_total - len(shown)
    names = [label(name, _OPS - 8) for name in shown]
    if rest > 0:
        names.append(label(f"and {rest:,} more" if shown else f"{rest:,} ops", _OPS - 8))
    gap = (WIDTH - 2 * _GPU - _OPS) / 2
    arriving = _crossing(island.arriving, 1 + _GPU, gap - 1, largest)
    leaving = _crossing(island.leaving, _GPU + gap + _OPS, gap - 1, largest)
    ops = f"{island.ops_total:,} {'op' if island.ops_total == 1 else 'ops'} on the CPU"
    return RoundTrip(
        names=tuple(names),
        title=(
            f"From a GPU {arriving.amount}, {arriving.copies}, to {ops}; "
            f"back to a GPU {leaving.amount}, {leaving.copies}"
        ),
        arriving=arriving,
        leaving=leaving,
    )


def _crossing(copies: IslandCopies, left: float, room: float, largest: int) -> Crossing:
    part = (copies.bytes or 0) / largest if largest else 0.0
    width = round(_NARROWEST + (_WIDEST - _NARROWEST) * part, 1)
    half = round(width / 2 + 4, 1)
    tip, y = left + room - 3, HEIGHT / 2
    base = round(tip - half - 2, 1)
    return Crossing(
        x_from=left + 3,
        x_to=base,
        width=width,
        head=f"{tip:g},{y:g} {base:g},{y - half:g} {base:g},{y + half:g}",
        amount="size unknown" if copies.bytes is None else str(size(copies.bytes)),
        copies="not recorded" if copies.count is None else copies_of(copies.count),
        middle=left + room / 2,
        is_measured=copies.bytes is not None,
    )
