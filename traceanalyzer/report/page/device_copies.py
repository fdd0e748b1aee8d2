"""Copies between devices as a picture: the host, its devices, and the host again.

What goes to a device comes from the left and what it gives back leaves to the right: there and
back lie on one line. Pairs of devices that copy to each other have lines of their own below.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from traceanalyzer.report.page.copy_measures import amount, known_measures
from traceanalyzer.report.page.svg_text import Label, label

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.model import Report
    from traceanalyzer.model.transfers import DeviceCopies
    from traceanalyzer.report.page.copy_measures import Measure

# Narrow enough for a telephone without scaling: the words in it keep the page's type size.
_WIDTH: Final = 344.0
_BOX: Final = 80.0
_HOST: Final = 40.0
_PEER: Final = 112.0  # holds "another device"
_LANE: Final = 58.0
_GAP: Final = 14.0
_NARROWEST, _WIDEST = 2.0, 14.0
_ROWS: Final = 24

_Side: TypeAlias = Literal["there", "back", "across"]


@dataclass(frozen=True)
class Box:
    """A device, or the host."""

    label: Label
    title: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Lane:
    """All copies of one direction between two devices, as an arrow."""

    copies: DeviceCopies
    row: int  # of the table of copies between devices
    words: str
    caption: Label
    detail: Label
    x_from: float
    x_to: float
    y: float
    width: float
    head: str  # the points of the arrow's head
    middle: float  # where its label is centred
    room: float  # how wide the label may be
    is_measured: bool  # whether the width shows an amount


@dataclass(frozen=True)
class DevicePicture:
    """Who copies to whom, by one measure."""

    measure: Measure
    width: float
    height: float
    boxes: tuple[Box, ...]
    lanes: tuple[Lane, ...]
    rows: int  # lines that there are
    rows_shown: int


@dataclass
class _Row:
    """A device with what comes from the host and what goes to it, or two devices."""

    left: str
    right: str
    there: list[int]  # indices of copies
    back: list[int]
    is_pair: bool

    @property
    def lanes(self) -> int:
        return max(len(self.there), len(self.back))

    @property
    def order(self) -> tuple[object, ...]:
        return (self.is_pair, _natural(self.left), _natural(self.right))


def device_pictures(report: Report) -> tuple[DevicePicture, ...]:
    """Return the picture by each measure that is known, the one to be shown first."""
    copies = () if report.copy_graph is None else report.copy_graph.devices
    rows = _rows(copies)
    return tuple(_picture(measure, copies, rows) for measure in known_measures(copies))


def _rows(copies: Sequence[DeviceCopies]) -> list[_Row]:
    rows: dict[tuple[str, str, bool], _Row] = {}
    for index, copy in enumerate(copies):
        side = _side(copy)
        ends = (copy.target, copy.source) if side == "back" else (copy.source, copy.target)
        key = (*ends, side == "across")
        row = rows.setdefault(key, _Row(*ends, [], [], is_pair=side == "across"))
        (row.back if side == "back" else row.there).append(index)
    return sorted(rows.values(), key=lambda row: row.order)


def _side(copy: DeviceCopies) -> _Side:
    """Return the direction of copies, from the names if it was not recorded."""
    if copy.direction in {"h2d", "d2h"}:
        return "there" if copy.direction == "h2d" else "back"
    from_host, to_host = _is_host(copy.source), _is_host(copy.target)
    if from_host == to_host:
        return "across"
    return "there" if from_host else "back"


def _is_host(name: str) -> bool:
    return "gpu" not in name.lower() and ("host" in name.lower() or "cpu" in name.lower())


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Return a key that sorts `gpu:2` before `gpu:10`."""
    pieces = re.findall(r"[0-9]{1,18}|[^0-9]+|[0-9]", name[:200])
    return [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in pieces]


def _picture(
    measure: Measure, copies: Sequence[DeviceCopies], rows: Sequence[_Row]
) -> DevicePicture:
    values = [measure.of(copy) for copy in copies]
    largest = max((value for value in values if value is not None), default=0.0)
    hosts = [row for row in rows[:_ROWS] if not row.is_pair]
    boxes: list[Box] = []
    lanes: list[Lane] = []
    y = 1.0
    for row in rows[:_ROWS]:
        height = _LANE * row.lanes
        frames = _frames(row)
        # The host to which nothing goes back, or from which nothing comes, is not drawn.
        drawn = (any(r.there for r in hosts), True, any(r.back for r in hosts))
        for (name, x, width), is_drawn in zip(frames, drawn, strict=False):
            if is_drawn or row.is_pair:
                _stack(boxes, name, x, y, width, height)
        for indices, (start, stop) in zip((row.there, row.back), _gaps(frames), strict=False):
            # The side with fewer lanes is centred.
            top = y + (height - _LANE * len(indices)) / 2
            for k, index in enumerate(indices):
                lane = _Lane(copies[index], index, values[index], largest)
                lanes.append(lane.drawn(measure, start, stop, round(top + _LANE * (k + 0.5), 1)))
        y += height + _GAP
    return DevicePicture(
        measure=measure,
        width=_WIDTH,
        height=y - _GAP + 1,
        boxes=tuple(boxes),
        lanes=tuple(lanes),
        rows=len(rows),
        rows_shown=min(len(rows), _ROWS),
    )


def _frames(row: _Row) -> list[tuple[str, float, float]]:
    if row.is_pair:
        return [(row.left, 1.0, _PEER), (row.right, _WIDTH - _PEER - 1, _PEER)]
    host = [(row.left, 1.0, _HOST)]
    device = (row.right, (_WIDTH - _BOX) / 2, _BOX)
    return [*host, device, (row.left, _WIDTH - _HOST - 1, _HOST)]


def _gaps(frames: Sequence[tuple[str, float, float]]) -> list[tuple[float, float]]:
    return [(left + width, right) for (_, left, width), (_, right, _) in pairwise(frames)]


def _stack(  # noqa: PLR0913, PLR0917 - a box
    boxes: list[Box], name: str, x: float, y: float, width: float, height: float
) -> None:
    """Add a box; one of the same name right above it grows instead."""
    above = max((k for k, b in enumerate(boxes) if (b.title, b.x) == (name, x)), default=None)
    if above is not None and abs(boxes[above].y + boxes[above].height + _GAP - y) < 0.1:  # noqa: PLR2004
        old = boxes.pop(above)
        y, height = old.y, y + height - old.y
    boxes.append(Box(label(name, width - 6), name, x, y, width, height))


@dataclass(frozen=True)
class _Lane:
    copies: DeviceCopies
    row: int
    value: float | None
    largest: float

    def drawn(self, measure: Measure, left: float, right: float, y: float) -> Lane:
        part = (self.value or 0.0) / self.largest if self.largest else 0.0
        width = round(_NARROWEST + (_WIDEST - _NARROWEST) * part, 1)
        half = round(width / 2 + 4, 1)  # of the arrow's head
        tip = right - 3
        base = round(tip - half - 2, 1)
        sums = amount([self.copies])
        room = right - left
        return Lane(
            copies=self.copies,
            row=self.row,
            words=sums.words,
            caption=label(sums.by(measure), room, is_mono=False),
            detail=label(sums.size if measure.id == "count" else sums.copies, room, is_mono=False),
            x_from=left + 3,
            x_to=base,
            y=y,
            width=width,
            head=f"{tip:g},{y:g} {base:g},{y - half:g} {base:g},{y + half:g}",
            middle=(left + right) / 2,
            room=room,
            is_measured=self.value is not None,
        )
