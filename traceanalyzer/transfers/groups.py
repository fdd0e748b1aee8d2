"""The transfer graph by groups of ops: by name scope, and by type if names have no scope."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from traceanalyzer.transfers.ends import Ends, memory_ends, op_ends
from traceanalyzer.transfers.graph import edges_between

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

_GroupKind: TypeAlias = Literal["op", "scope", "type", "memory", "others"]

_MAX_GROUPS: Final = 24  # of a side: what a picture's column can hold
_MAX_FLOWS: Final = 2000
_MAX_SCOPES: Final = 32  # of a name


@dataclass(frozen=True)
class Group:
    """Ends of transfers with a name scope or a type in common.

    An `op` is single, a `memory` stands for unknown ops, `others` are the small groups of a side
    that has too many.
    """

    kind: _GroupKind
    label: str  #: the scope, the type, the op's name or the memory; empty for `others`
    nodes: tuple[str, ...]  #: of the transfer graph, those with most transfers first


@dataclass(frozen=True, kw_only=True)
class Flow:
    """All transfers of one direction from a group to another, between the same two memories."""

    source: int  #: index among `Groups.sources`
    target: int  #: index among `Groups.targets`
    source_memory: str
    target_memory: str
    direction: str
    sums: Mapping[str, Any]  #: as on an edge of the transfer graph


@dataclass(frozen=True)
class Groups:
    """The transfers of a run by groups of ops: each transfer is in one flow."""

    sources: tuple[Group, ...]
    targets: tuple[Group, ...]
    flows: tuple[Flow, ...]


@dataclass(frozen=True)
class _Leaf:
    node: str
    kind: _GroupKind
    name: str
    path: tuple[str, ...]  # from the outermost scope
    weight: float


def transfer_groups(transfers: pd.DataFrame, ops: pd.DataFrame) -> Groups:
    """Divide the ops that transfers go between into few groups.

    Heavy scopes are divided into those within them, as far as there is room. The weight of an op
    combines its share of all bytes, of their time and of their number: one that reads back four
    bytes per step is no less important.
    """
    ends = op_ends(transfers)
    memories = memory_ends(transfers)
    width = len(memories.nodes)
    weights = _weights(transfers)
    named = _named(ops, ends)
    sides = []
    for own in (ends.source, ends.target):
        heavy = np.bincount(own, weights, len(ends.nodes)).tolist()
        sides.append([_leaf(ends.nodes[k], named, heavy[k]) for k in np.unique(own).tolist()])
    most = _MAX_GROUPS
    while True:
        sources, targets = (_divided(leaves, most) for leaves in sides)
        places = (
            (_numbers(ends, sources)[ends.source]) * width + memories.source,
            (_numbers(ends, targets)[ends.target] + len(sources)) * width + memories.target,
        )
        names = map(str, range((len(sources) + len(targets)) * width))
        graph = edges_between(transfers, Ends(tuple(names), *places))
        if len(graph.edges) <= _MAX_FLOWS or most <= 2:  # noqa: PLR2004 - one and the others
            break
        most //= 2
    flows = []
    for source, target, direction, sums in graph.edges(keys=True, data=True):
        (from_group, from_memory), (to_group, to_memory) = (
            divmod(int(place), width) for place in (source, target)
        )
        flows.append(
            Flow(
                source=from_group,
                target=to_group - len(sources),
                source_memory=memories.nodes[from_memory],
                target_memory=memories.nodes[to_memory],
                direction=direction,
                sums=sums,
            )
        )
    flows.sort(key=lambda f: (f.source, f.target, f.source_memory, f.target_memory, f.direction))
    return Groups(sources, targets, tuple(flows))


def _numbers(ends: Ends, groups: Sequence[Group]) -> NDArray[np.int64]:
    """Return the group of each node, 0 for one that no transfer of this side has."""
    group_of = {node: k for k, group in enumerate(groups) for node in group.nodes}
    return np.array([group_of.get(node, 0) for node in ends.nodes], np.int64)


def _weights(transfers: pd.DataFrame) -> NDArray[np.float64]:
    """Return the share of each transfer in all bytes, in their time and in their number."""
    total = np.full(len(transfers), 1 / len(transfers))
    for column in ("bytes", "duration_ps"):
        values = transfers[column].fillna(0).to_numpy(np.float64)
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
    *scopes, _ = name.split("/", _MAX_SCOPES)
    # Nothing but its type says what an op without a scope belongs to.
    path = ("scope", *scopes) if any(scopes) else ("type", op_type)
    return _Leaf(node, "op", name, path, weight)


def _divided(leaves: Sequence[_Leaf], most: int) -> tuple[Group, ...]:
    """Return the groups of a side, the heaviest first and the others last."""
    parts = _parts(leaves, 2)
    whole: set[str] = set()  # first nodes of parts that there is no room to divide
    while True:
        parts.sort(key=lambda part: (-sum(leaf.weight for leaf in part), part[0].node))
        heaviest = next((p for p in parts if len(p) > 1 and p[0].node not in whole), None)
        if heaviest is None:
            break
        within = _parts(heaviest, len(_common_path(heaviest)) + 1)
        if len(parts) - 1 + len(within) <= most:
            parts.remove(heaviest)
            parts += within
        else:
            whole.add(heaviest[0].node)
    if len(parts) <= most:
        return tuple(map(_group, parts))
    rest = [leaf for part in parts[most - 1 :] for leaf in part]
    others = Group(kind="others", label="", nodes=_heaviest_first(rest))
    return (*map(_group, parts[: most - 1]), others)


def _parts(leaves: Iterable[_Leaf], depth: int) -> list[list[_Leaf]]:
    """Return the leaves by the first names of their paths; shorter paths are parts of their own."""
    by_path: dict[tuple[str, ...], list[_Leaf]] = defaultdict(list)
    for leaf in leaves:
        alone = len(leaf.path) < depth
        by_path[("", leaf.node) if alone else leaf.path[:depth]].append(leaf)
    return list(by_path.values())


def _common_path(leaves: Sequence[_Leaf]) -> tuple[str, ...]:
    first, last = min(leaf.path for leaf in leaves), max(leaf.path for leaf in leaves)
    same = [a == b for a, b in zip(first, last, strict=False)]
    return first[: [*same, False].index(False)]


def _group(leaves: Sequence[_Leaf]) -> Group:
    nodes = _heaviest_first(leaves)
    if len(leaves) == 1:
        return Group(kind=leaves[0].kind, label=leaves[0].name, nodes=nodes)
    kind, *names = _common_path(leaves)
    return Group(kind="type" if kind == "type" else "scope", label="/".join(names), nodes=nodes)


def _heaviest_first(leaves: Iterable[_Leaf]) -> tuple[str, ...]:
    return tuple(leaf.node for leaf in sorted(leaves, key=lambda leaf: (-leaf.weight, leaf.node)))
