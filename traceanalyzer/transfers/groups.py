"""The transfers between groups of ops: by name scope, or by type for names without a scope."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import pandas as pd

from traceanalyzer.transfers.graph import sums
from traceanalyzer.transfers.traffic import Traffic

_GroupKind: TypeAlias = Literal["op", "scope", "type", "memory", "others"]

_SIDES: Final = ("source", "target")
_MAX_GROUPS: Final = (24, 12, 6, 3, 2)  # on each side, most first: the picture has limited room
_MAX_FLOWS: Final = 2000
_MAX_SCOPES: Final = 32  # of a name


@dataclass(frozen=True)
class Group:
    """Ends of transfers: a single op, ops that share a name scope or a type, or unknown ops.

    The kind `memory` is for unknown ops, `others` for the small groups of a side with too many.
    """

    kind: _GroupKind
    label: str  #: the scope, the type, the op's name or the memory; empty for `others`
    nodes: tuple[str, ...]  #: of the transfer graph, most transfers first


@dataclass(frozen=True)
class Flow:
    """The transfers of one direction from a group to another, between two memories."""

    source: int  #: index among `Groups.sources`
    target: int  #: index among `Groups.targets`
    source_memory: str
    target_memory: str
    direction: str
    sums: Mapping[str, Any]  #: as on an edge of the transfer graph


@dataclass(frozen=True)
class Groups:
    """The transfers of a run by groups of ops; each transfer is in one flow."""

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


def transfer_groups(traffic: Traffic, ops: pd.DataFrame) -> Groups:
    """Group the ops at the two ends of transfers.

    Heavy scopes are divided into inner scopes while there is room. The weight of an op is the sum
    of its shares of bytes, of time and of the number of transfers: four bytes per step matter too.
    """
    table = traffic.table
    shares = [
        table[column].fillna(0).astype(float) / max(1.0, float(table[column].sum()))
        for column in ("bytes", "duration_ps")
    ]
    weight = shares[0] + shares[1] + 1 / len(table)
    found = ops[ops["op_id"].isin({*table["source"], *table["target"]})]
    columns = (found[c].astype(str) for c in ("op_id", "name", "type"))
    named = {op_id: (name, kind) for op_id, name, kind in zip(*columns, strict=True)}
    leaves = []
    for end in _SIDES:
        weights = weight.groupby(table[end], observed=True).sum()
        leaves.append([_leaf(str(node), named, heavy) for node, heavy in weights.items()])
    for most in _MAX_GROUPS:
        sources, targets = (_divided(of_side, most) for of_side in leaves)
        numbered = table.assign(
            source_group=_numbers(table["source"], sources),
            target_group=_numbers(table["target"], targets),
        )
        keys = ["source_group", "target_group", "source_memory", "target_memory"]
        flows = sums(traffic, numbered, keys)
        if len(flows) <= _MAX_FLOWS:
            break
    return Groups(sources, targets, tuple(Flow(*flow) for flow in flows))


def _numbers(nodes: pd.Series[str], groups: Sequence[Group]) -> pd.Series[int]:
    """Return the group of each node."""
    return nodes.map({n: k for k, group in enumerate(groups) for n in group.nodes}).astype(int)


def _leaf(node: str, named: Mapping[str, tuple[str, str]], weight: float) -> _Leaf:
    if node in named:
        name, op_type = named[node]
    elif node.startswith("name:"):
        name = op_type = node.removeprefix("name:")
    else:
        return _Leaf(node, "memory", node, (), weight)
    *scopes, _ = name.split("/", _MAX_SCOPES)
    # An op without a scope can only be grouped by its type.
    path = ("scope", *scopes) if any(scopes) else ("type", op_type)
    return _Leaf(node, "op", name, path, weight)


def _divided(leaves: Sequence[_Leaf], most: int) -> tuple[Group, ...]:
    """Return the groups of a side, the heaviest first and the others last."""
    parts = _parts(leaves, 2)
    whole: set[str] = set()  # first nodes of parts that cannot be divided for lack of room
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
    """Group leaves by the first names of their paths; each shorter path is a part of its own."""
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
