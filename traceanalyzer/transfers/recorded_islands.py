"""The islands in the graphs that a capture recorded: what lies between copies, node by node."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from traceanalyzer.tables.vocabulary import Role, role_of_type
from traceanalyzer.transfers.crossings import IslandOp, text_or_none
from traceanalyzer.transfers.grouping import codes_of, grouped
from traceanalyzer.transfers.island import Island

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from traceanalyzer.transfers.crossings import Crossings
    from traceanalyzer.transfers.dataflow import Flow, Recorded

__all__ = ["recorded_islands"]

_NOT_ON_THE_WAY: Final = frozenset({"_Arg", "_DeviceArg", "_Retval", "_DeviceRetval", "NoOp"})


def recorded_islands(crossing: Crossings, recorded: Recorded) -> Iterator[Island]:
    """Find islands.

    Args:
        crossing: The copies of a host.
        recorded: The graphs.
    """
    takes = _by_function(crossing, recorded, crossing.arriving, "consumer")
    gives = _by_function(crossing, recorded, crossing.leaving, "producer")
    seen: set[tuple[str, frozenset[str]]] = set()
    for function in sorted(gives):
        for flow in recorded.flows(function):
            first = _named(flow, takes[function]) if crossing.is_measured else _from_device(flow)
            for part in _parts(flow, first, _named(flow, gives[function])):
                key = (function, frozenset(flow.graph.names[node] for node in part))
                if key in seen:
                    continue
                seen.add(key)
                mapped = _Mapped(crossing, recorded, flow, part)
                island = mapped.island(takes[function], gives[function])
                if island.ops:  # else there is but control flow, which the runtime puts there
                    yield island


def _by_function(
    crossing: Crossings, recorded: Recorded, copies: NDArray[np.int64], end: str
) -> dict[str, dict[str, list[int]]]:
    """Return the copies by function and node at one end of them."""
    found: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    far_end = "producer" if end == "consumer" else "consumer"
    columns = [crossing.copies[c] for c in (end, f"{end}_name", "function", far_end)]
    for part in grouped(copies, [codes_of(column) for column in columns]):
        op_id, name, label, far = (text_or_none(column.iloc[part[0]]) for column in columns)
        place = _place(crossing, recorded, op_id)
        if place is None and name is not None:
            there = _place(crossing, recorded, far)
            function = recorded.full_name(label) or (there[0] if there else None)
            place = None if function is None else (function, name)
        if place is not None:
            found[place[0]][place[1]] += part.tolist()
    return found


def _place(crossing: Crossings, recorded: Recorded, op_id: str | None) -> tuple[str, str] | None:
    """Return function and node of an op."""
    row = None if op_id is None else crossing.row_of.get(op_id)
    return None if row is None else recorded.place.get(row)


def _named(flow: Flow, names: Iterable[str]) -> set[int]:
    return {node for name in names if (node := flow.find(name)) >= 0}


def _from_device(flow: Flow) -> set[int]:
    """Return the nodes that take what a node on a device makes."""
    return {
        node
        for node, sources in enumerate(flow.inputs)
        if any(flow.on_cpu[source] is False for source, _ in sources)
    }


def _parts(flow: Flow, first: set[int], last: set[int]) -> list[list[int]]:
    """Return the nodes on the way from what arrives to what leaves, part by part.

    Args:
        flow: The graph.
        first: Nodes that take a value off a device.
        last: Nodes that give one to it.
    """
    on_way = _on_the_way(flow)
    first = {node for node in first if on_way[node]}
    last = {node for node in last if on_way[node]}
    if not first or not last:
        return []
    inputs = [
        [source for source, _ in sources if on_way[source]] if on_way[node] else []
        for node, sources in enumerate(flow.inputs)
    ]
    outputs: list[list[int]] = [[] for _ in inputs]
    for node, sources in enumerate(inputs):
        for source in sources:
            outputs[source].append(node)
    members = _reached(first, outputs) & _reached(last, inputs)
    parts = []
    while members:
        part: set[int] = set()
        waiting = [min(members)]
        while waiting:
            node = waiting.pop()
            if node not in part:
                part.add(node)
                waiting += [n for n in (*inputs[node], *outputs[node]) if n in members]
        members -= part
        parts.append(_in_flow_order(part, inputs))
    return parts


def _on_the_way(flow: Flow) -> list[bool]:
    """Tell which nodes values can pass on a CPU."""
    roles = {op: role_of_type(op) for op in set(flow.graph.ops)}
    return [
        bool(on_cpu) and roles[op] in {Role.COMPUTE, Role.RUNTIME} and op not in _NOT_ON_THE_WAY
        for op, on_cpu in zip(flow.graph.ops, flow.on_cpu, strict=True)
    ]


def _reached(start: Iterable[int], following: Sequence[Sequence[int]]) -> set[int]:
    found: set[int] = set()
    waiting = list(start)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += following[node]
    return found


def _in_flow_order(part: set[int], inputs: Sequence[Sequence[int]]) -> list[int]:
    """Return nodes with those that values come from before those that they go to.

    Within a loop there is no such order: there the graph's own stands.
    """
    waits = {node: {s for s in inputs[node] if s in part} - {node} for node in part}
    wakes: dict[int, list[int]] = defaultdict(list)
    for node in sorted(part):
        for source in waits[node]:
            wakes[source].append(node)
    ordered: dict[int, None] = {}
    for first in (*(n for n in sorted(part) if not waits[n]), *sorted(part)):
        ready = [first]
        while ready:
            node = ready.pop(0)
            if node in ordered:
                continue
            ordered[node] = None
            for after in wakes[node]:
                waits[after].discard(node)
                if not waits[after]:
                    ready.append(after)
    return list(ordered)


class _Mapped:
    """An island in a recorded graph, with what lies about it."""

    def __init__(
        self, crossing: Crossings, recorded: Recorded, flow: Flow, part: Sequence[int]
    ) -> None:
        self._crossing = crossing
        self._recorded = recorded
        self._flow = flow
        self._part = part
        self._known: dict[int, IslandOp] = {}
        self._rows = [recorded.rows.get((flow.function, name), []) for name in flow.graph.names]

    def island(self, takes: Mapping[str, list[int]], gives: Mapping[str, list[int]]) -> Island:
        """Describe it."""
        flow, crossing = self._flow, self._crossing
        arriving = self._copies(takes)
        leaving = self._copies(gives)
        limit = crossing.crossing([*arriving, *leaving]).time_ps
        near = self._near()
        copies = {c for side in (takes, gives) for found in side.values() for c in found}
        nets = self._nets(near, copies)
        nodes = {n for producer, consumers, _ in nets for n in (producer, *consumers)}
        nodes |= set(self._part)
        keyed = [
            (self._op(p).key, tuple(self._op(c).key for c in consumers), copies)
            for p, consumers, copies in nets
        ]
        held = {self._op(n).key for n in nodes if n not in near or self._is_held(n, limit)}
        members = [self._op(node) for node in self._part]
        row = next((r for node in self._part for r in self._rows[node]), None)
        came = crossing.crossing(arriving)
        if not crossing.is_measured and not arriving:
            came = replace(came, count=None)
        return Island(
            host=str(crossing.copies["host"].iloc[leaving[0]]),
            function=flow.function if row is None else crossing.function(row),
            # What a node on a device makes may be in host memory already, where nothing is copied.
            certainty="certain" if arriving else "likely",
            ops=tuple(op for op in members if role_of_type(op.type) == Role.COMPUTE),
            between=(),
            arriving=came,
            leaving=crossing.crossing(leaving),
            values=crossing.values(keyed, "bytes"),
            times=crossing.values(keyed, "duration_ps"),
            on_cpu=frozenset(self._op(n).key for n in nodes if flow.on_cpu[n]),
            held=frozenset(held),
            known={self._op(n).key: self._op(n) for n in sorted(nodes)},
        )

    def _copies(self, by_name: Mapping[str, list[int]]) -> list[int]:
        own = set(self._part)
        return sorted(c for name, cs in by_name.items() if self._flow.find(name) in own for c in cs)

    def _op(self, node: int) -> IslandOp:
        if node not in self._known:
            rows = self._rows[node]
            graph = self._flow.graph
            self._known[node] = (
                self._crossing.op(rows[0])
                if rows
                else IslandOp(
                    key=f"{self._flow.function}/{graph.names[node]}",
                    op_id=None,
                    name=graph.names[node],
                    type=graph.ops[node],
                )
            )
        return self._known[node]

    def _near(self) -> set[int]:
        """Return what may move: what it connects to on the CPU, and what is next to that."""
        flow = self._flow
        on_way = _on_the_way(flow)
        beside: dict[int, set[int]] = defaultdict(set)
        for node, sources in enumerate(flow.inputs):
            for source, _ in sources:
                beside[node].add(source)
                beside[source].add(node)
        near: set[int] = set()
        waiting = list(self._part)
        while waiting:
            node = waiting.pop()
            if node not in near:
                near.add(node)
                waiting += [n for n in beside[node] if on_way[n]]
        return near | {n for node in near for n in beside[node]}

    def _nets(
        self, near: set[int], copies: set[int]
    ) -> list[tuple[int, tuple[int, ...], list[int]]]:
        """Return what goes from, or to, a node that may move, with the copies of it."""
        flow = self._flow
        consumers: dict[tuple[int, int], dict[int, None]] = defaultdict(dict)
        for node, sources in enumerate(flow.inputs):
            for source in sources:
                consumers[source][node] = None
        copied: dict[int, list[tuple[int, int]]] = defaultdict(list)
        ends = self._crossing.copies.iloc[sorted(copies)]
        named = zip(sorted(copies), ends["producer_name"], ends["consumer_name"], strict=True)
        for copy, producer, consumer in named:
            if isinstance(producer, str) and (at := flow.find(producer)) >= 0:
                taker = flow.find(consumer) if isinstance(consumer, str) else -1
                copied[at].append((taker, copy))
        nets = []
        for source, takers in consumers.items():
            if source[0] in near or not near.isdisjoint(takers):
                told = [c for taker, c in copied[source[0]] if taker in takers or taker < 0]
                copied[source[0]] = [e for e in copied[source[0]] if e[1] not in told]
                nets.append((source[0], tuple(takers), told))
        return nets

    def _is_held(self, node: int, limit_ps: int | None) -> bool:
        """Tell whether an op stays whatever else moves.

        The graph's own ends and control flow do; and an op on a device whose kernels take longer
        than the copies, or nobody knows how long.
        """
        flow = self._flow
        if role_of_type(flow.graph.ops[node]) != Role.COMPUTE or flow.on_cpu[node] is None:
            return True
        if flow.on_cpu[node]:
            return False
        rows = self._rows[node]
        if limit_ps is None or not rows:
            return True
        return int(self._crossing.ops["kernel_ps"].iloc[rows].sum()) > limit_ps
