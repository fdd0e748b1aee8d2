"""Flows between columns of nodes, laid out: who gives how much to whom, as a Sankey diagram.

Nothing here knows what flows. The layout is computed without a browser, so that the page is whole
without scripts and holds no library for it, and the same flows always come out the same: columns
are put in the order in which fewest bands cross, and nodes are moved towards what they are linked
with as far as their neighbours let them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_SWEEPS: Final = 6
_TIP: Final = 7.0  # how far a band's point reaches


@dataclass(frozen=True)
class Flow:
    """What goes from a node of one column to one of the next."""

    key: str
    source: str
    target: str
    value: float | None  # None if unknown


@dataclass(frozen=True)
class Shape:
    """How large the picture is."""

    lefts: tuple[float, ...]  # left edges of the columns
    node_width: float
    thickest: float  # height of all flows of the fullest column
    thinnest: float  # height that stays visible of the smallest flow
    rows: tuple[float, ...]  # least height of a node in each column, for its text
    heads: tuple[float, ...]  # room above the nodes of each column
    gap: float  # between the nodes of a column
    margin: float  # above and below all nodes


@dataclass(frozen=True)
class Node:
    """A node and its position; it is as high as its thicker side."""

    key: str
    column: int
    x: float
    y: float
    height: float

    @property
    def middle(self) -> float:
        """The height of its middle."""
        return self.y + self.height / 2


@dataclass(frozen=True)
class Band:
    """A flow where it goes: its outline, and the middles of its ends."""

    key: str
    source: str
    target: str
    y_from: float
    y_to: float
    width: float
    is_measured: bool  # whether the width stands for a value
    path: str


@dataclass(frozen=True)
class Layout:
    """The picture."""

    nodes: tuple[Node, ...]
    bands: tuple[Band, ...]
    height: float


def lay_out(
    columns: Sequence[Sequence[str]],
    flows: Sequence[Flow],
    shape: Shape,
    last: Iterable[str] = (),
) -> Layout:
    """Return nodes and flows laid out."""
    flows = sorted(flows, key=lambda flow: flow.key)
    widths = _widths(columns, flows, shape)
    needs = _needs(columns, flows, widths)
    order = _ordered(columns, flows, widths, frozenset(last))
    tops, height = _positions(order, flows, widths, needs, shape)
    nodes = {
        key: Node(key, column, shape.lefts[column], round(tops[key], 1), needs[key])
        for column, keys in enumerate(order)
        for key in keys
    }
    return Layout(tuple(nodes.values()), tuple(_bands(flows, widths, nodes, shape)), height)


def _widths(
    columns: Sequence[Sequence[str]], flows: Sequence[Flow], shape: Shape
) -> dict[str, float]:
    """Return how wide each flow is: all by one scale, but for those too small to be seen."""
    values = {flow.key: flow.value or 0.0 for flow in flows}
    throughputs = _needs(columns, flows, values)
    fullest = max((sum(throughputs[key] for key in keys) for keys in columns), default=0.0)
    # The scale comes first: a value near the largest of all numbers, times it, would be too large.
    return {
        key: round(max(shape.thinnest, shape.thickest * (value / fullest if fullest else 0.0)), 2)
        for key, value in values.items()
    }


def _needs(
    columns: Sequence[Sequence[str]], flows: Sequence[Flow], widths: Mapping[str, float]
) -> dict[str, float]:
    """Return the flow through each node: the larger of what enters and what leaves."""
    comes: dict[str, float] = defaultdict(float)
    leaves: dict[str, float] = defaultdict(float)
    for flow in flows:
        leaves[flow.source] += widths[flow.key]
        comes[flow.target] += widths[flow.key]
    return {key: round(max(comes[key], leaves[key]), 2) for keys in columns for key in keys}


# --- order ---------------------------------------------------------------------------------


def _ordered(
    columns: Sequence[Sequence[str]],
    flows: Sequence[Flow],
    widths: Mapping[str, float],
    last: frozenset[str],
) -> list[list[str]]:
    """Return the columns in the order, of those tried, in which bands cross least."""
    linked = _linked(flows, widths)
    order = [sorted(keys, key=lambda key: key in last) for keys in columns]
    best, fewest = order, _crossings(order, flows, widths)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        along = range(len(order))
        for column in along if sweep % 2 == 0 else reversed(along):
            order = [*order]
            order[column] = _by_neighbours(order, column, linked, last)
        crossed = _crossings(order, flows, widths)
        if crossed < fewest:
            best, fewest = order, crossed
    return best


def _linked(
    flows: Sequence[Flow], widths: Mapping[str, float]
) -> dict[str, list[tuple[str, float]]]:
    linked: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for flow in flows:
        linked[flow.source].append((flow.target, widths[flow.key]))
        linked[flow.target].append((flow.source, widths[flow.key]))
    return linked


def _by_neighbours(
    order: Sequence[Sequence[str]],
    column: int,
    linked: Mapping[str, Sequence[tuple[str, float]]],
    last: frozenset[str],
) -> list[str]:
    """Sort a column by the average position of the nodes that each of its nodes is linked with."""
    place = {key: index / len(keys) for keys in order for index, key in enumerate(keys)}
    wanted = {key: _mean(linked.get(key, ()), place, place[key]) for key in order[column]}
    return sorted(order[column], key=lambda key: (key in last, wanted[key], place[key]))


def _mean(
    linked: Sequence[tuple[str, float]], place: Mapping[str, float], otherwise: float
) -> float:
    weight = sum(width for _, width in linked)
    return sum(place[key] * width for key, width in linked) / weight if weight else otherwise


def _crossings(
    order: Sequence[Sequence[str]], flows: Sequence[Flow], widths: Mapping[str, float]
) -> float:
    """Return the areas, added up, in which bands cross."""
    place = {key: (column, k) for column, keys in enumerate(order) for k, key in enumerate(keys)}
    crossed = 0.0
    for column in range(len(order) - 1):
        here = [flow for flow in flows if place[flow.source][0] == column]
        start = np.array([place[flow.source][1] for flow in here])
        end = np.array([place[flow.target][1] for flow in here])
        width = np.array([widths[flow.key] for flow in here])
        apart = (start[:, None] < start) & (end[:, None] > end)
        crossed += float(width @ apart @ width)
    return round(crossed, 6)


# --- heights -------------------------------------------------------------------------------


def _positions(
    order: Sequence[Sequence[str]],
    flows: Sequence[Flow],
    widths: Mapping[str, float],
    needs: Mapping[str, float],
    shape: Shape,
) -> tuple[dict[str, float], float]:
    """Return the top of each node, and how high the picture is."""
    rooms = {
        key: (shape.heads[column], max(needs[key], shape.rows[column]))
        for column, keys in enumerate(order)
        for key in keys
    }
    taken = [sum(map(sum, (rooms[key] for key in keys))) for keys in order]
    height = max(
        (room + shape.gap * (len(keys) - 1) for room, keys in zip(taken, order, strict=True)),
        default=0.0,
    )
    linked = _linked(flows, widths)
    middles = dict.fromkeys(rooms, height / 2)
    for keys in order:
        _settle(keys, dict(middles), rooms, middles, height, shape.gap)
    for sweep in range(_SWEEPS):
        for keys in order if sweep % 2 else reversed(order):
            wanted = {key: _mean(linked.get(key, ()), middles, middles[key]) for key in keys}
            _settle(keys, wanted, rooms, middles, height, shape.gap)
    tops = {key: shape.margin + middle - needs[key] / 2 for key, middle in middles.items()}
    return tops, height + 2 * shape.margin


def _settle(  # noqa: PLR0913, PLR0917 - a column and all that bounds it
    keys: Sequence[str],
    wanted: Mapping[str, float],
    rooms: Mapping[str, tuple[float, float]],
    middles: dict[str, float],
    height: float,
    gap: float,
) -> None:
    """Put the middles of a column's nodes where they are wanted, as far as there is room."""
    ends: list[float] = []  # of the rooms of the nodes
    free = 0.0
    for key in keys:
        head, own = rooms[key]
        end = max(wanted[key] + own / 2, free + head + own)
        ends.append(end)
        free = end + gap
    free = height
    for index in range(len(keys) - 1, -1, -1):
        head, own = rooms[keys[index]]
        end = min(ends[index], free)
        middles[keys[index]] = end - own / 2
        free = end - own - head - gap


# --- bands ---------------------------------------------------------------------------------


def _bands(
    flows: Sequence[Flow],
    widths: Mapping[str, float],
    nodes: Mapping[str, Node],
    shape: Shape,
) -> Iterable[Band]:
    starts = _ends(flows, widths, nodes, at_source=True)
    stops = _ends(flows, widths, nodes, at_source=False)
    for flow in flows:
        left = nodes[flow.source].x + shape.node_width
        right = nodes[flow.target].x
        width, start, stop = widths[flow.key], starts[flow.key], stops[flow.key]
        yield Band(
            key=flow.key,
            source=flow.source,
            target=flow.target,
            y_from=start,
            y_to=stop,
            width=width,
            is_measured=flow.value is not None,
            path=_outline(left, start, right, stop, width),
        )


def _ends(
    flows: Sequence[Flow],
    widths: Mapping[str, float],
    nodes: Mapping[str, Node],
    *,
    at_source: bool,
) -> dict[str, float]:
    """Return the middle of each flow's end, one below the other in the order of where they go."""
    by_node: dict[str, list[Flow]] = defaultdict(list)
    for flow in flows:
        by_node[flow.source if at_source else flow.target].append(flow)
    ends: dict[str, float] = {}
    for key, own in by_node.items():
        other = {f.key: nodes[f.target if at_source else f.source].middle for f in own}
        y = nodes[key].middle - sum(widths[flow.key] for flow in own) / 2
        for flow in sorted(own, key=lambda f: (other[f.key], f.key)):
            ends[flow.key] = round(y + widths[flow.key] / 2, 2)
            y += widths[flow.key]
    return ends


def _outline(left: float, start: float, right: float, stop: float, width: float) -> str:
    """Return the outline of a band that ends in a point, as data of an SVG path."""
    half = width / 2
    neck = right - min(_TIP, max(3.0, width))
    bend = (left + neck) / 2
    return (
        f"M{left:g} {start - half:.1f}"
        f"C{bend:g} {start - half:.1f} {bend:g} {stop - half:.1f} {neck:g} {stop - half:.1f}"
        f"L{right:g} {stop:.1f}L{neck:g} {stop + half:.1f}"
        f"C{bend:g} {stop + half:.1f} {bend:g} {start + half:.1f} {left:g} {start + half:.1f}Z"
    )
