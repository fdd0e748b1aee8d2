"""Groups transfers by the name scopes of their ops, or by op type for names without a scope."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Final, NamedTuple

import pandas as pd

from traceanalyzer.model.blocks import Flow, FlowNode, Flows
from traceanalyzer.transfers.graph import sums
from traceanalyzer.transfers.traffic import Traffic
from traceanalyzer.units import us

_MAX_GROUPS: Final = (24, 12, 6, 3, 2)  # on each side, most first: the picture has limited room
_MAX_FLOWS: Final = 2000
_MAX_SCOPES: Final = 32  # of a name


class _SharedEnd(NamedTuple):
    """An op at one end of transfers, or an unknown op."""

    node: str  # of the transfer graph
    label: str
    path: tuple[str, ...]  # the scopes or the type; empty for an unknown op
    weight: float


# Ends that share a name scope or a type, with its name.
_Group = tuple[str, Sequence[_SharedEnd]]


def transfer_flows(traffic: Traffic, ops: pd.DataFrame) -> Flows:
    """Return all transfers as flows between groups of ops. Each transfer is in one flow.

    Heavy scopes are divided into inner scopes while there is room. An op's weight is the sum of its
    shares of bytes, time, and number of transfers, so that many small transfers matter, too.
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
    ends = {}
    for side in ("source", "target"):
        weights = weight.groupby(table[side], observed=True).sum()
        ends[side] = [_end(str(node), named, heavy) for node, heavy in weights.items()]
    for most in _MAX_GROUPS:
        groups = {side: _divided(of_side, most) for side, of_side in ends.items()}
        numbers = {f"{side}_group": _numbers(table[side], of) for side, of in groups.items()}
        keys = [*numbers, "source_memory", "target_memory"]
        rows = sums(traffic, table.assign(**numbers), keys)
        if len(rows) <= _MAX_FLOWS:
            break
    places: dict[tuple[str, int, str], int] = {}  # a group has a node for each memory
    flows = [
        Flow(
            source=places.setdefault(("source", source, source_memory), len(places)),
            target=places.setdefault(("target", target, target_memory), len(places)),
            bytes=of["bytes"],
            count=of["count"],
            us=us(of["total_ps"]),
            gpu_wait_us=us(of["exposed_ps"]),
        )
        for source, target, source_memory, target_memory, _, of in rows
    ]
    nodes = [_node(groups[side][number], memory) for side, number, memory in places]
    return Flows(nodes=tuple(nodes), flows=tuple(flows))


def _numbers(nodes: "pd.Series[str]", groups: Sequence[_Group]) -> "pd.Series[int]":
    found = {end.node: k for k, (_, group) in enumerate(groups) for end in group}
    return nodes.map(found).astype(int)


def _node(group: _Group, memory: str) -> FlowNode:
    label, ends = group
    first = ends[0]
    if len(ends) == 1 and not first.path:
        return FlowNode(label="unknown op", memory=memory)
    op_id = None if len(ends) > 1 or first.node.startswith("name:") else first.node
    return FlowNode(label=label, memory=memory, ops=len(ends), op_id=op_id)


def _end(node: str, named: dict[str, tuple[str, str]], weight: float) -> _SharedEnd:
    if node not in named and not node.startswith("name:"):
        return _SharedEnd(node, node, (), weight)
    bare = node.removeprefix("name:")
    name, op_type = named.get(node, (bare, bare))
    *scopes, _ = name.split("/", _MAX_SCOPES)
    # An op without a scope can only be grouped by its type.
    return _SharedEnd(node, name, ("scope", *scopes) if any(scopes) else ("type", op_type), weight)


def _divided(ends: Iterable[_SharedEnd], most: int) -> list[_Group]:
    """Return at most `most` groups, heaviest first. The last one can combine all others."""
    parts = _parts(ends, 2)
    whole: set[str] = set()  # first nodes of parts that cannot be divided for lack of room
    while True:
        parts.sort(key=lambda part: (-sum(end.weight for end in part), part[0].node))
        heaviest = next((p for p in parts if len(p) > 1 and p[0].node not in whole), None)
        if heaviest is None:
            break
        within = _parts(heaviest, len(_common_path(heaviest)) + 1)
        if len(parts) - 1 + len(within) <= most:
            parts.remove(heaviest)
            parts += within
        else:
            whole.add(heaviest[0].node)
    groups: list[_Group] = [
        (part[0].label if len(part) == 1 else "/".join(_common_path(part)[1:]), part)
        for part in parts
    ]
    if len(groups) <= most:
        return groups
    rest = [end for part in parts[most - 1 :] for end in part]
    return [*groups[: most - 1], (f"{len(rest):,} others", rest)]


def _parts(ends: Iterable[_SharedEnd], depth: int) -> list[list[_SharedEnd]]:
    """Group ends by the first `depth` names of their paths. Shorter paths stay ungrouped."""
    by_path: dict[tuple[str, ...], list[_SharedEnd]] = defaultdict(list)
    for end in ends:
        alone = len(end.path) < depth
        by_path[("", end.node) if alone else end.path[:depth]].append(end)
    return list(by_path.values())


def _common_path(ends: Sequence[_SharedEnd]) -> tuple[str, ...]:
    first, last = min(end.path for end in ends), max(end.path for end in ends)
    same = takewhile(lambda names: names[0] == names[1], zip(first, last, strict=False))
    return tuple(name for name, _ in same)
