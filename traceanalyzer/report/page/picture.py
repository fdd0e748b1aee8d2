"""Pictures as plain geometry: the copy graph between devices, and the strip of step times.

The layout is computed here and only written out by the templates, so that it can be tested
without a browser.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traceanalyzer.model import Cell, DeviceCopies, Report

__all__ = ["Bar", "Box", "CopyPicture", "Lane", "StepStrip", "copy_picture", "step_strip"]

# Narrow enough for a telephone without scaling: the words in it keep the page's type size.
WIDTH = 344
BOX_WIDTH = 80
LANE_HEIGHT = 58
GAP = 14
NARROWEST, WIDEST = 2.0, 14.0
PAIRS_SHOWN = 16
STEPS_SHOWN = 200


@dataclass(frozen=True)
class Box:
    """A device."""

    label: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Lane:
    """All copies of one direction between two devices, as an arrow."""

    copies: DeviceCopies
    x_from: float
    x_to: float
    y: float
    width: float
    head: str  # the points of the arrow's head

    @property
    def is_measured(self) -> bool:
        """Whether the width stands for bytes; where they are unknown it stands for nothing."""
        return self.copies.bytes is not None


@dataclass(frozen=True)
class CopyPicture:
    """The host-device graph."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    lanes: tuple[Lane, ...]
    pairs: int  # pairs of devices with copies, of which PAIRS_SHOWN are drawn


def copy_picture(report: Report) -> CopyPicture | None:
    """Returns the graph of copies between devices, or None where none are known.

    Each pair of devices is a row: two boxes with an arrow for each direction between them. Boxes
    of the same name that follow one another on the left are drawn as one.
    """
    copies = () if report.copy_graph is None else report.copy_graph.devices
    pairs = _pairs(copies)
    if not pairs:
        return None
    heaviest = max((copy.bytes or 0 for copy in copies), default=0)
    boxes: list[Box] = []
    lanes: list[Lane] = []
    y = 0.0
    for (left, right), members in pairs[:PAIRS_SHOWN]:
        height = float(LANE_HEIGHT * len(members))
        last_left = boxes[-2] if boxes else None
        right_box = Box(right, WIDTH - BOX_WIDTH - 1.0, y, BOX_WIDTH, height)
        if last_left is not None and last_left.label == left:
            boxes[-2:-1] = []
            tall = y + height - last_left.y
            boxes += [Box(left, last_left.x, last_left.y, BOX_WIDTH, tall), right_box]
        else:
            boxes += [Box(left, 1.0, y, BOX_WIDTH, height), right_box]
        for index, member in enumerate(members):
            middle = y + LANE_HEIGHT * index + LANE_HEIGHT / 2
            lanes.append(_lane(member, middle, heaviest, to_right=member.target == right))
        y += height + GAP
    return CopyPicture(WIDTH, y - GAP + 2, tuple(boxes), tuple(lanes), len(pairs))


def _pairs(
    copies: Sequence[DeviceCopies],
) -> list[tuple[tuple[str, str], list[DeviceCopies]]]:
    """Returns the copies by pair of devices, the host on the left and its pairs first."""
    found: dict[tuple[str, str], list[DeviceCopies]] = {}
    for copy in copies:
        ends = (copy.source, copy.target)
        if (copy.target, copy.source) in found or (_is_host(ends[1]) and not _is_host(ends[0])):
            ends = (copy.target, copy.source)
        found.setdefault(ends, []).append(copy)
    ordered = sorted(found.items(), key=lambda pair: (not _is_host(pair[0][0]), pair[0]))
    # Arrows to the right first, so that there and back read alike in every row.
    return [(ends, sorted(of, key=lambda c: c.target != ends[1])) for ends, of in ordered]


def _is_host(name: str) -> bool:
    return "gpu" not in name.lower() and ("host" in name.lower() or "cpu" in name.lower())


def _lane(copies: DeviceCopies, y: float, heaviest: int, *, to_right: bool) -> Lane:
    part = (copies.bytes or 0) / heaviest if heaviest else 0.0
    width = round(NARROWEST + (WIDEST - NARROWEST) * part, 1)
    half = round(width / 2 + 4, 1)  # of the arrow's head
    margin = 5.0
    left, right = BOX_WIDTH + 1.0 + margin, WIDTH - BOX_WIDTH - 1.0 - margin
    tip, tail, back = (right, left, -1) if to_right else (left, right, 1)
    base = tip + back * (half + 2)
    head = f"{tip},{y} {base},{y - half} {base},{y + half}"
    return Lane(copies, tail, base, y, width, head)


@dataclass(frozen=True)
class Bar:
    """A step's time."""

    label: str
    us: float
    x: float
    width: float
    y: float
    height: float


@dataclass(frozen=True)
class StepStrip:
    """Step times as bars, over the width 0 to 100 and the height 0 to 40."""

    bars: tuple[Bar, ...]
    longest_us: float
    median_y: float | None


_STRIP_WIDTH, _STRIP_HEIGHT = 100.0, 40.0


def step_strip(report: Report) -> StepStrip | None:
    """Returns the picture of step times, or None where there are fewer than two."""
    times = [
        (_step_label(row, index), float(us))
        for index, row in enumerate(report.tables.steps.records()[:STEPS_SHOWN])
        if isinstance(us := row.get("duration_us"), int | float)
    ]
    longest = max((us for _, us in times), default=0.0)
    if len(times) < 2 or longest <= 0:  # noqa: PLR2004
        return None
    pitch = _STRIP_WIDTH / len(times)
    bars = tuple(
        Bar(
            label=label,
            us=us,
            x=round(index * pitch, 3),
            width=round(pitch * 0.8, 3),
            y=round(_STRIP_HEIGHT * (1 - us / longest), 2),
            height=round(_STRIP_HEIGHT * us / longest, 2),
        )
        for index, (label, us) in enumerate(times)
    )
    median = report.steps.median_us if report.steps is not None else None
    median_y = None if median is None else round(_STRIP_HEIGHT * (1 - median / longest), 2)
    return StepStrip(bars, longest, median_y if median_y is None or median_y >= 0 else None)


def _step_label(row: Mapping[str, Cell], index: int) -> str:
    number = str(row.get("step", index))
    kind = row.get("kind", "regular")
    return number if kind == "regular" else f"{number}, {kind}"
