"""The copy graph by groups of ops: by name scope, and by type where names have none."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from traceanalyzer.transfers.graph import Ends, edges_between, memory_ends, op_ends

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

__all__ = ["Flow", "Group", "GroupKind", "Groups", "copy_groups"]

GroupKind: TypeAlias = Literal["op", "scope", "type", "memory", "others"]

_MOST_GROUPS: Final = 24  # of a side: what a picture's column can hold
_MOST_FLOWS: Final = 2000
_DEEPEST: Final = 32  # scopes of a name that are told apart
_Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Group:
    """Ends of copies that are told of as one.

    Attributes:
        kind: What they have in common: a name scope, a type; `op` is a single op, `memory` a memory
            of which no op is known, `others` the small ones of a side that has too many.
        label: The scope, the type, the op's name or the memory; empty for `others`.
        nodes: The nodes of the copy graph in it, those with most copies first.
    """

    kind: GroupKind
    label: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Flow:
    """All copies of one direction from a group to another, between the same two memories.

    Attributes:
        source: Index of the group that they leave, among `Groups.sources`.
        target: Of the one that they reach, among `Groups.targets`.
        source_memory: The memory they leave: `host`, `gpu:0`.
        target_memory: The memory they reach.
        direction: As in the copy table.
        sums: Sums over the copies, as on an edge of the copy graph.
    """

    source: int
    target: int
    source_memory: str
    target_memory: str
    direction: str
    sums: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Groups:
    """The copies of a run by groups of ops: each copy is in one flow."""

    sources: tuple[Group, ...]
    targets: tuple[Group, ...]
    flows: tuple[Flow, ...]


@dataclass(frozen=True)
class _Leaf:
    node: str
    kind: GroupKind
    name: str
    path: _Path  # of what it lies in, from the outside
    weight: float


def copy_groups(copies: pd.DataFrame, ops: pd.DataFrame) -> Groups:
    """Divide the ops that copies go between into few groups.

    Heavy scopes are divided into those within them, as far as there is room. How heavy an op is
    counts its share of all bytes, of the time and of the number of copies alike: one that reads
    back four bytes a step is no smaller for it.

    Args:
        copies: The copy table; not empty.
        ops: The op table.
    """
    ends = op_ends(copies)
    memories = memory_ends(copies)
    weights = _weights(copies)
    named = _named(ops, ends)
    most = _MOST_GROUPS
    while True:
        groups = _groups(copies, ends, memories, weights, named, most)
        if len(groups.flows) <= _MOST_FLOWS or most <= 2:  # noqa: PLR2004 - one and the others
            return groups
        most //= 2


def _groups(  # noqa: PLR0913, PLR0917 - what one call found is the next one's too
    copies: pd.DataFrame,
    ends: Ends,
    memories: Ends,
    weights: NDArray[np.float64],
    named: Mapping[str, tuple[str, str]],
    most: int,
) -> Groups:
    sides = []
    for own in (ends.source, ends.target):
        heavy = np.bincount(own, weights, len(ends.nodes))
        used = np.flatnonzero(np.bincount(own, minlength=len(ends.nodes))).tolist()
        leaves = [_leaf(ends.nodes[k], named, float(heavy[k])) for k in used]
        sides.append(_divided(leaves, most))
    places = _Places()
    source = places.of(0, sides[0], ends.nodes, ends.source, memories.nodes, memories.source)
    target = places.of(1, sides[1], ends.nodes, ends.target, memories.nodes, memories.target)
    graph = edges_between(copies, Ends(nodes=tuple(places.names), source=source, target=target))
    flows = [
        Flow(
            source=places.places[a][0],
            target=places.places[b][0],
            source_memory=places.places[a][1],
            target_memory=places.places[b][1],
            direction=direction,
            sums=sums,
        )
        for a, b, direction, sums in graph.edges(keys=True, data=True)
    ]
    flows.sort(
        key=lambda f: (f.source, f.target, f.source_memory, f.target_memory, f.direction),
    )
    return Groups(sources=sides[0], targets=sides[1], flows=tuple(flows))


class _Places:
    """Numbers pairs of a group and a memory, on either side."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.places: dict[str, tuple[int, str]] = {}

    def of(  # noqa: PLR0913, PLR0917 - two codes and what they mean
        self,
        side: int,
        groups: Sequence[Group],
        nodes: Sequence[str],
        node: NDArray[np.int64],
        memories: Sequence[str],
        memory: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Return the number of each copy's place."""
        group_of = {name: k for k, group in enumerate(groups) for name in group.nodes}
        lookup = np.array([group_of.get(name, 0) for name in nodes], np.int64)
        code = lookup[node] * len(memories) + memory
        is_used = np.bincount(code, minlength=len(groups) * len(memories)) > 0
        first = len(self.names)
        for number in np.flatnonzero(is_used).tolist():
            group, where = divmod(number, len(memories))
            name = f"{side}.{number}"
            self.names.append(name)
            self.places[name] = (group, memories[where])
        numbers: NDArray[np.int64] = (first - 1 + np.cumsum(is_used))[code]
        return numbers


def _weights(copies: pd.DataFrame) -> NDArray[np.float64]:
    """Return the share of each copy in all bytes, in their time and in their number."""
    total = np.full(len(copies), 1 / len(copies))
    for column in ("bytes", "duration_ps"):
        values = copies[column].fillna(0).to_numpy(np.float64)
        everything = values.sum()
        if everything > 0:
            total += values / everything
    return total


def _named(ops: pd.DataFrame, ends: Ends) -> dict[str, tuple[str, str]]:
    """Return the name and the type of the ends that are ops of the op table."""
    found = ops[ops["op_id"].isin(ends.nodes)]
    columns = (found[name].astype(str) for name in ("op_id", "name", "type"))
    return {op_id: (name, kind) for op_id, name, kind in zip(*columns, strict=True)}


def _leaf(node: str, named: Mapping[str, tuple[str, str]], weight: float) -> _Leaf:
    if node in named:
        name, op_type = named[node]
    elif node.startswith("name:"):
        name = op_type = node.removeprefix("name:")
    else:
        return _Leaf(node, "memory", node, (), weight)
    *scopes, _ = name.split("/", _DEEPEST)
    # Nothing but its type says what an op without a scope belongs to.
    path = ("scope", *scopes) if any(scopes) else ("type", op_type)
    return _Leaf(node, "op", name, path, weight)


@dataclass(frozen=True)
class _Part:
    """Leaves with the first `depth` names of their paths in common."""

    leaves: tuple[_Leaf, ...]
    depth: int
    weight: float

    @property
    def order(self) -> tuple[float, str]:
        """The heaviest first."""
        return (-self.weight, self.leaves[0].node)


def _divided(leaves: Sequence[_Leaf], most: int) -> tuple[Group, ...]:
    """Return the groups of a side, the heaviest first and what is left over last."""
    parts = _parts(leaves, 2)
    whole: set[int] = set()  # by identity: parts that there is no room to divide
    while True:
        parts.sort(key=lambda part: part.order)
        heaviest = next((p for p in parts if len(p.leaves) > 1 and id(p) not in whole), None)
        if heaviest is None:
            break
        within = _within(heaviest)
        if len(parts) - 1 + len(within) <= most:
            parts.remove(heaviest)
            parts += within
        else:
            whole.add(id(heaviest))
    if len(parts) <= most:
        return tuple(map(_group, parts))
    rest = [leaf for part in parts[most - 1 :] for leaf in part.leaves]
    others = Group(kind="others", label="", nodes=_heaviest_first(rest))
    return (*map(_group, parts[: most - 1]), others)


def _parts(leaves: Iterable[_Leaf], depth: int) -> list[_Part]:
    """Return the leaves by the first names of their paths; those that end before stand alone."""
    by_path: dict[_Path, list[_Leaf]] = defaultdict(list)
    for leaf in leaves:
        alone = len(leaf.path) < depth
        by_path[("", leaf.node) if alone else leaf.path[:depth]].append(leaf)
    return [
        _Part(tuple(of), min(depth, len(of[0].path)), sum(leaf.weight for leaf in of))
        for of in by_path.values()
    ]


def _within(part: _Part) -> list[_Part]:
    """Return the parts of a part, passing over scopes that hold but one other."""
    depth = part.depth
    while True:
        depth += 1
        parts = _parts(part.leaves, depth)
        if len(parts) > 1:
            return parts


def _group(part: _Part) -> Group:
    nodes = _heaviest_first(part.leaves)
    if len(part.leaves) == 1:
        (leaf,) = part.leaves
        return Group(kind=leaf.kind, label=leaf.name, nodes=nodes)
    paths = [leaf.path for leaf in part.leaves]
    first, last = min(paths), max(paths)
    same = sum(
        1 for _ in takewhile(lambda both: both[0] == both[1], zip(first, last, strict=False))
    )
    kind, *names = first[:same]
    return Group(kind="type" if kind == "type" else "scope", label="/".join(names), nodes=nodes)


def _heaviest_first(leaves: Iterable[_Leaf]) -> tuple[str, ...]:
    return tuple(leaf.node for leaf in sorted(leaves, key=lambda leaf: (-leaf.weight, leaf.node)))
