"""The picture of time by name scope: each scope a box, as wide as its time, below its own scope.

Widths are in hundredths of the picture's, so that it fits whatever room there is; words are cut for
a narrow page and for a wide one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from traceanalyzer.format import duration
from traceanalyzer.model import number_in
from traceanalyzer.report.packed import Numbers, Texts, pack
from traceanalyzer.report.text import cut, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from traceanalyzer.model import Cell, PackedTable
    from traceanalyzer.model.times import Scopes

ROW_HEIGHT: Final = 28
LEVELS: Final = 5
BOXES: Final = 300
ROWS: Final = 25
_GAP: Final = 1
_NARROWEST: Final = 0.2  # hundredths: what is narrower is no box
_DECIMALS: Final = 3
# What the picture is at least wide, in pixels, by the width of the page (`time.css`).
_WIDTHS: Final = {"narrow": 288, "wide": 600, "widest": 880}
_CHARACTER: Final = 7.6
_PADDING: Final = 10
_FEWEST: Final = 8  # characters of a name that was cut: fewer are useless
_MIXED: Final = 0.02  # a smaller share of the time does not make a scope mixed


@dataclass(frozen=True)
class ScopeBox:
    """A scope in the picture."""

    node: int  # row of the document's nodes
    x: float  # of 100
    width: float  # of 100
    y: int  # in pixels
    side: str  # "cpu", "device" or "mixed": where most of its time was spent
    cpu_share: float
    words: tuple[tuple[str, str], ...]  # what fits into it, by width of the page
    title: str


@dataclass(frozen=True)
class ScopeRow:
    """A scope as a row of a table."""

    path: str
    kind: str
    cpu_us: float
    device_us: float
    launch_us: float
    share: float
    ops: int


@dataclass(frozen=True)
class Icicle:
    """The picture, and its text form."""

    boxes: tuple[ScopeBox, ...]
    height: int  # in pixels
    rows: tuple[ScopeRow, ...]  # the scopes that took longest
    cpu_us: float
    device_us: float
    scopes: int
    named: int  # how many have a box


@dataclass(frozen=True)
class _Node:
    index: int
    path: tuple[str, ...]
    kind: str
    cpu_us: float
    device_us: float
    launch_us: float
    ops: int

    @property
    def us(self) -> float:
        return self.cpu_us + self.device_us


def icicle(scopes: Scopes | None) -> Icicle | None:
    """Return the picture; None if no scope took any time."""
    nodes = [] if scopes is None else _nodes(scopes.nodes.records())
    below = _below(nodes, scopes)
    whole = sum(node.us for node in below.get(None, ()))
    if scopes is None or whole <= 0:
        return None
    boxes = list(_boxes(below, whole))
    if len(boxes) > BOXES:  # the widest, and with each those above it: these are no narrower
        widest = sorted(boxes, key=lambda box: (-box.width, box.y))[:BOXES]
        kept = {box.node for box in widest}
        boxes = [box for box in boxes if box.node in kept]
    tops = below.get(None, ())
    return Icicle(
        boxes=tuple(boxes),
        height=max(box.y for box in boxes) + ROW_HEIGHT,
        rows=tuple(_row(node, whole) for node in _longest(nodes)),
        cpu_us=sum(node.cpu_us for node in tops),
        device_us=sum(node.device_us for node in tops),
        scopes=scopes.nodes.total_rows,
        named=len(boxes),
    )


def _nodes(rows: Sequence[Mapping[str, Cell]]) -> list[_Node]:
    made: list[_Node] = []
    for index, row in enumerate(rows):
        above = row["parent"]
        path = made[above].path if isinstance(above, int) and 0 <= above < index else ()
        made.append(
            _Node(
                index,
                (*path, str(row["name"])),
                str(row["kind"]),
                number_in(row["cpu_us"]),
                number_in(row["device_us"]),
                number_in(row["launch_us"]),
                int(number_in(row["ops"])),
            )
        )
    return made


def _below(nodes: Sequence[_Node], scopes: Scopes | None) -> dict[int | None, list[_Node]]:
    found: dict[int | None, list[_Node]] = {}
    if scopes is not None:
        parent = scopes.nodes.columns.index("parent")
        for node, row in zip(nodes, scopes.nodes.rows, strict=True):
            above = row[parent]
            found.setdefault(above if isinstance(above, int) else None, []).append(node)
    return found


def _boxes(below: Mapping[int | None, Sequence[_Node]], whole: float) -> Iterable[ScopeBox]:
    level: list[tuple[float, int | None]] = [(0.0, None)]
    # Where all are narrow, the widest have a box all the same.
    narrowest = min(_NARROWEST, 100 * max(node.us for node in below[None]) / whole)
    for depth in range(LEVELS):
        deeper: list[tuple[float, int | None]] = []
        for left, above in level:
            x = left
            for node in below.get(above, ()):
                width = 100 * node.us / whole
                if width >= narrowest:
                    yield _box(node, x, width, depth, whole)
                    deeper.append((x, node.index))
                x += width
        level = deeper


def _box(node: _Node, x: float, width: float, depth: int, whole: float) -> ScopeBox:
    cpu_share = node.cpu_us / node.us
    is_mixed = _MIXED <= cpu_share <= 1 - _MIXED
    return ScopeBox(
        node=node.index,
        x=round(x, _DECIMALS),
        width=round(width, _DECIMALS),
        y=depth * ROW_HEIGHT,
        side="mixed" if is_mixed else "cpu" if cpu_share > _MIXED else "device",
        cpu_share=cpu_share,
        words=tuple(
            (page, words)
            for page, pixels in _WIDTHS.items()
            if (words := _fitted(node.path[-1], width * pixels / 100))
        ),
        title=_title(node, whole),
    )


def _fitted(name: str, pixels: float) -> str:
    room = int((pixels - _PADDING) / _CHARACTER)
    words = cut(name, max(room, 1))
    return words if room >= _FEWEST or words == visible(name) else ""


def _title(node: _Node, whole: float) -> str:
    parts = [f"{100 * node.us / whole:.1f} %"]
    if node.cpu_us:
        parts.append(f"{duration(node.cpu_us)} on the CPU")
    if node.device_us:
        parts.append(f"{duration(node.device_us)} on devices")
    if node.launch_us:
        parts.append(f"{duration(node.launch_us)} to launch it")
    parts.append("1 op" if node.ops == 1 else f"{node.ops:,} ops")
    return f"{cut('/'.join(node.path), 200)}: {', '.join(parts)}"


def _longest(nodes: Sequence[_Node]) -> list[_Node]:
    named = [node for node in nodes if node.kind in ("scope", "function", "group") and node.us > 0]
    if not named:  # names without any scope
        named = [node for node in nodes if node.us > 0]
    return sorted(named, key=lambda node: -node.us)[:ROWS]


def _row(node: _Node, whole: float) -> ScopeRow:
    path = "/".join(node.path)
    share = min(1.0, node.us / whole)
    return ScopeRow(path, node.kind, node.cpu_us, node.device_us, node.launch_us, share, node.ops)


def scope_data(scopes: Scopes) -> PackedTable:
    """Return the nodes for the picture that scripts draw."""
    rows = scopes.nodes.records()
    columns: dict[str, Any] = {
        "parent": Numbers(_figures(rows, "parent")),
        "name": _texts(rows, "name"),
        "kind": _texts(rows, "kind"),
    }
    for name in ("cpu_us", "device_us", "launch_us"):
        columns[name] = Numbers(_figures(rows, name), per=1000)
    columns["ops"] = Numbers(_figures(rows, "ops"))
    return pack(columns, scopes.nodes.total_rows)


def _figures(rows: Sequence[Mapping[str, Cell]], name: str) -> Any:  # noqa: ANN401 - an array
    cells = (row[name] for row in rows)
    return np.array([np.nan if cell is None else cell for cell in cells], np.float64)


def _texts(rows: Sequence[Mapping[str, Cell]], name: str) -> Texts:
    known: dict[str, int] = {}
    codes = [known.setdefault(str(row[name]), len(known)) for row in rows]
    return Texts(np.array(codes, np.int64), list(known))
