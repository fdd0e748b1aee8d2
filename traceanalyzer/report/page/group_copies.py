"""Copies by groups of ops as a picture: who makes them, between which memories, who takes them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from traceanalyzer.report import grids, text, views
from traceanalyzer.report.page import sankey
from traceanalyzer.report.page.copy_measures import Amount, amount, known_measures
from traceanalyzer.report.page.fewer_groups import between, fewer_groups
from traceanalyzer.report.page.svg_text import Label, label

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from traceanalyzer.model import Direction, Report
    from traceanalyzer.model.transfers import CopyGroup, CopyGroups, GroupCopies
    from traceanalyzer.report.page.copy_measures import Measure

Side: TypeAlias = Literal["from", "between", "to"]

_WIDTH: Final = 720.0
_LABELS: Final = 200.0  # on either side
_BAR: Final = 10.0
_MIDDLE: Final = (_WIDTH - _BAR) / 2
_BETWEEN: Final = 140.0  # room for the labels of the middle column
_BADGE: Final = 26.0
_BADGES: Final = 3
_LIT: Final = 300  # bands beyond which a node does not list what it is linked with
_SHAPE: Final = sankey.Shape(
    lefts=(_LABELS + 8, _MIDDLE, _WIDTH - _LABELS - 8 - _BAR),
    node_width=_BAR,
    thickest=200.0,
    thinnest=1.5,
    rows=(34.0, 2.0, 34.0),
    heads=(0.0, 36.0, 0.0),
    gap=8.0,
    margin=4.0,
)
_OTHERS: Final = "others"


@dataclass(frozen=True)
class Badge:
    """Leads from a group to a round trip that it is part of."""

    text: str
    title: str
    anchor: str
    x: float


@dataclass(frozen=True)
class Node:
    """A group of ops, or two memories that copies go between."""

    key: str
    side: Side
    x: float
    y: float
    width: float
    height: float
    title: str
    anchor: str | None
    name: Label
    caption: Label
    text_x: float
    caption_x: float
    text_anchor: Literal["start", "middle", "end"]
    badges: tuple[Badge, ...]
    lit: str  # keys of the nodes and bands that it has to do with

    @property
    def middle(self) -> float:
        """The height of its middle."""
        return self.y + self.height / 2


@dataclass(frozen=True)
class Band:
    """All copies of one direction between a group and two memories."""

    key: str
    direction: Direction
    title: str
    anchor: str
    path: str
    is_measured: bool
    lit: str


@dataclass(frozen=True)
class GroupPicture:
    """All copies by groups of ops, by one measure."""

    measure: Measure
    width: float
    height: float
    nodes: tuple[Node, ...]
    bands: tuple[Band, ...]

    @property
    def directions(self) -> tuple[str, ...]:
        """The directions that occur, in the order in which they are explained."""
        here = {band.direction for band in self.bands}
        return tuple(direction for direction in text.DIRECTIONS if direction in here)


@dataclass(frozen=True)
class GroupRow:
    """A group of ops as a row of the table."""

    id: str
    side: Side
    group: CopyGroup
    name: str
    amount: Amount


def group_rows(report: Report) -> tuple[GroupRow, ...]:
    """Return the groups on either side, with all that they copy."""
    groups = _groups(report)
    if groups is None:
        return ()
    rows: list[GroupRow] = []
    for side, of, end in (("from", groups.sources, "source"), ("to", groups.targets, "target")):
        flows: dict[int, list[GroupCopies]] = defaultdict(list)
        for flow in groups.flows:
            flows[getattr(flow, end)].append(flow)
        rows += [
            GroupRow(
                id=f"copies-{side}-{k}",
                side="from" if side == "from" else "to",
                group=group,
                name=_name(group),
                amount=_sums(flows[k]),
            )
            for k, group in enumerate(of)
        ]
    return tuple(rows)


def group_pictures(report: Report) -> tuple[GroupPicture, ...]:
    """Return the picture by each measure that is known, the one to be shown first.

    Where there are very many bands there is but that one.
    """
    groups = _groups(report)
    if groups is None or not groups.flows:
        return ()
    graph = _Graph(groups, group_rows(report), report)
    measures = known_measures(groups.flows)
    return tuple(graph.picture(m) for m in measures[: 1 if len(graph.bands) > _LIT else None])


def _groups(report: Report) -> CopyGroups | None:
    groups = None if report.copy_graph is None else report.copy_graph.groups
    return None if groups is None else fewer_groups(groups)


def _sums(flows: Iterable[GroupCopies]) -> Amount:
    every = tuple(flows)
    return amount(every, sum(flow.unknown_bytes for flow in every))


def _name(group: CopyGroup) -> str:
    """Return the name of a group, without its number of ops."""
    if group.kind == "memory":
        return f"{group.label}, op unknown"
    return _OTHERS if group.kind == "others" else group.label or group.name


class _Graph:
    """What the pictures of all measures have in common: nodes, bands, and their flows."""

    def __init__(self, groups: CopyGroups, rows: Sequence[GroupRow], report: Report) -> None:
        self.rows = {f"{row.side[0]}{_number(row)}": row for row in rows}
        self.homes = views.homes(report)
        self.round_trips = len(report.islands)
        self.between = between(groups.flows)
        self.pairs = list(dict.fromkeys(self.between.values()))
        self.bands: dict[str, tuple[str, str, Direction, list[GroupCopies]]] = {}
        self.through: dict[str, list[GroupCopies]] = defaultdict(list)
        self.lit: dict[str, dict[str, None]] = defaultdict(dict)
        for flow in groups.flows:
            self._take(flow)

    def _take(self, flow: GroupCopies) -> None:
        middle = f"b{self.pairs.index(self.between[_pair(flow)])}"
        ends = (f"f{flow.source}", middle, f"t{flow.target}")
        keys = []
        for source, target in ((ends[0], middle), (middle, ends[2])):
            key = f"{source}-{target}-{flow.direction}"
            self.bands.setdefault(key, (source, target, flow.direction, []))[3].append(flow)
            keys.append(key)
        for end in ends:
            self.through[end].append(flow)
            self.lit[end] |= dict.fromkeys((*ends, *keys))

    def picture(self, measure: Measure) -> GroupPicture:
        """Return the picture by a measure."""
        flows = [
            sankey.Flow(key, source, target, measure.of(_sums(of)))
            for key, (source, target, _, of) in self.bands.items()
        ]
        columns = [
            [key for key in self.rows if key.startswith("f")],
            [f"b{k}" for k in range(len(self.pairs))],
            [key for key in self.rows if key.startswith("t")],
        ]
        last = [key for key, row in self.rows.items() if row.group.kind == "others"]
        laid = sankey.lay_out(columns, flows, _SHAPE, last)
        return GroupPicture(
            measure=measure,
            width=_WIDTH,
            height=round(laid.height, 1),
            nodes=tuple(self._node(node, measure) for node in laid.nodes),
            bands=tuple(self._band(band) for band in laid.bands),
        )

    def _band(self, band: sankey.Band) -> Band:
        source, target, direction, flows = self.bands[band.key]
        title = f"{self._called(source)} → {self._called(target)}: {_sums(flows).words}"
        end = source if source in self.rows else target
        return Band(
            key=band.key,
            direction=direction,
            title=f"{title}, {text.DIRECTIONS[direction]}",
            anchor=self.rows[end].id,
            path=band.path,
            is_measured=band.is_measured,
            lit=f"{source} {target}",
        )

    def _called(self, key: str) -> str:
        return text.cut(self.rows[key].name if key in self.rows else self.pairs[int(key[1:])], 60)

    def _node(self, node: sankey.Node, measure: Measure) -> Node:
        row = self.rows.get(node.key)
        sums = _sums(self.through[node.key])
        lit = " ".join(self.lit[node.key]) if len(self.bands) <= _LIT else ""
        if row is None:
            return self._pair_node(node, sums, measure, lit)
        is_left = row.side == "from"
        badges = self._badges(row.group, is_left=is_left)
        words = sums.by(measure)
        text_x = _LABELS if is_left else _WIDTH - _LABELS
        aside = len(badges) * (_BADGE + 2) + 2 if badges else 0.0
        if not badges and measure.id != "count":
            words = f"{words} · {sums.copies}"
        return Node(
            key=node.key,
            side=row.side,
            x=node.x,
            y=node.y,
            width=_BAR,
            height=node.height,
            title=f"{text.cut(_full(row.group), 200)}: {sums.words}",
            anchor=self._home(row),
            name=_named(row.group),
            caption=label(words, _LABELS - aside, is_mono=False),
            text_x=text_x,
            caption_x=text_x - aside if is_left else text_x + aside,
            text_anchor="end" if is_left else "start",
            badges=badges,
            lit=lit,
        )

    def _pair_node(self, node: sankey.Node, sums: Amount, measure: Measure, lit: str) -> Node:
        name = self.pairs[int(node.key[1:])]
        return Node(
            key=node.key,
            side="between",
            x=node.x,
            y=node.y,
            width=_BAR,
            height=node.height,
            title=f"{text.cut(name, 80)}: {sums.words}",
            anchor=None,
            name=label(name, _BETWEEN),
            caption=label(sums.by(measure), _BETWEEN, is_mono=False),
            text_x=_WIDTH / 2,
            caption_x=_WIDTH / 2,
            text_anchor="middle",
            badges=(),
            lit=lit,
        )

    def _home(self, row: GroupRow) -> str:
        """Return the link to the details of a group; for a single op, its row among the ops."""
        key = row.group.node
        is_op = row.group.kind == "op" and key in self.homes
        return views.fragment("op", key) if is_op else row.id

    def _badges(self, group: CopyGroup, *, is_left: bool) -> tuple[Badge, ...]:
        numbers = [n for n in group.islands if n <= self.round_trips]
        shown = numbers if len(numbers) <= _BADGES else numbers[: _BADGES - 1]
        badges = [
            (f"R{n}", f"Round trip {n}", f"island-{n}") for n in shown if n <= grids.ROWS_SHOWN
        ]
        if len(numbers) > len(badges):
            rest = len(numbers) - len(badges)
            badges.append((f"+{rest}", f"{rest} more round trips", "islands"))
        first = _LABELS - len(badges) * (_BADGE + 2) + 2 if is_left else _WIDTH - _LABELS
        return tuple(
            Badge(words, title, anchor, first + k * (_BADGE + 2))
            for k, (words, title, anchor) in enumerate(badges)
        )


def _number(row: GroupRow) -> str:
    return row.id.rpartition("-")[2]


def _pair(flow: GroupCopies) -> tuple[str, str]:
    return (flow.source_memory, flow.target_memory)


def _full(group: CopyGroup) -> str:
    if group.ops == 1 or group.kind == "memory":
        return _name(group)
    what = {"scope": "scope", "type": "type"}.get(group.kind, "")
    return f"{what} {_name(group)} ({group.ops:,} ops, most by {text.cut(group.name, 60)})".strip()


def _named(group: CopyGroup) -> Label:
    """Return a group's name with how many ops it is: that stays where the name is cut."""
    if group.kind == "others":
        return label(f"{group.ops:,} others", _LABELS)
    tail = "" if group.ops == 1 else f" ({group.ops:,})"
    head = label(_name(group), _LABELS - 7.3 * len(tail))
    length = None if head.length is None else min(_LABELS, head.length + 7.3 * len(tail))
    return Label(head.text + tail, length)
