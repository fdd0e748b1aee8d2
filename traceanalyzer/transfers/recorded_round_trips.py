"""The round trips in the graphs that a capture recorded: what lies between transfers, by node."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from traceanalyzer.tables.vocabulary import Role, role_of_type
from traceanalyzer.transfers.ends import codes_of, grouped, text_or_none
from traceanalyzer.transfers.round_trips import Net, RoundTrip, RoundTripOp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from traceanalyzer.transfers.recorded_graphs import PlacedGraph, RecordedGraphs
    from traceanalyzer.transfers.round_trips import HostTransfers

_NOT_ON_THE_WAY: Final = frozenset({"_Arg", "_DeviceArg", "_Retval", "_DeviceRetval", "NoOp"})


def recorded_round_trips(transfers: HostTransfers, recorded: RecordedGraphs) -> Iterator[RoundTrip]:
    """Find the round trips of a host in its recorded graphs."""
    takes = _by_function(transfers, recorded, transfers.arriving, "consumer")
    gives = _by_function(transfers, recorded, transfers.leaving, "producer")
    found: set[tuple[str, frozenset[str]]] = set()
    for function in sorted(gives):
        for placed in recorded.instances(function):
            if transfers.is_measured:
                first = _nodes(placed, takes[function])
            else:
                first = _from_device(placed)
            for part in _parts(placed, first, _nodes(placed, gives[function])):
                key = (function, frozenset(placed.graph.names[node] for node in part))
                if key in found:
                    continue
                found.add(key)
                mapped = _Part(transfers, recorded, placed, part)
                round_trip = mapped.round_trip(takes[function], gives[function])
                if round_trip.ops:  # otherwise it is only control flow of the runtime
                    yield round_trip


def _by_function(
    transfers: HostTransfers, recorded: RecordedGraphs, rows: NDArray[np.int64], end: str
) -> dict[str, dict[str, list[int]]]:
    """Return the transfers by function and node at one end of them."""
    found: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    far_end = "producer" if end == "consumer" else "consumer"
    columns = [transfers.transfers[c] for c in (end, f"{end}_name", "function", far_end)]

    def place_of(op_id: str | None) -> tuple[str, str] | None:
        row = None if op_id is None else transfers.row_of.get(op_id)
        return None if row is None else recorded.place.get(row)

    for part in grouped(rows, [codes_of(column) for column in columns]):
        op_id, name, label, far = (text_or_none(column.iloc[part[0]]) for column in columns)
        place = place_of(op_id)
        if place is None and name is not None:
            function = None if label is None else recorded.full_names.get(label)
            if function is None and (there := place_of(far)):
                function = there[0]
            place = None if function is None else (function, name)
        if place is not None:
            found[place[0]][place[1]] += part.tolist()
    return found


def _nodes(placed: PlacedGraph, names: Iterable[str]) -> set[int]:
    return {node for name in names if (node := placed.find(name)) >= 0}


def _from_device(placed: PlacedGraph) -> set[int]:
    """Return the nodes that take what a node on a device makes."""
    return {
        node
        for node, sources in enumerate(placed.inputs)
        if any(placed.on_cpu[source] is False for source, _ in sources)
    }


def _parts(placed: PlacedGraph, first: set[int], last: set[int]) -> Iterator[list[int]]:
    """Return the nodes on the way from what arrives to what leaves, part by part.

    Args:
        placed: The graph.
        first: Nodes that take a value off a device.
        last: Nodes that send one to it.
    """
    on_way = _on_the_way(placed)
    inputs = [
        [source for source, _ in sources if on_way[source]] if on_way[node] else []
        for node, sources in enumerate(placed.inputs)
    ]
    outputs: list[list[int]] = [[] for _ in inputs]
    for node, sources in enumerate(inputs):
        for source in sources:
            outputs[source].append(node)
    after = _reached((node for node in first if on_way[node]), outputs.__getitem__)
    members = after & _reached((node for node in last if on_way[node]), inputs.__getitem__)
    beside = {n: [m for m in (*inputs[n], *outputs[n]) if m in members] for n in members}
    while members:
        part = _reached([min(members)], beside.__getitem__)
        members -= part
        yield _in_flow_order(part, inputs)


def _on_the_way(placed: PlacedGraph) -> list[bool]:
    """Return for each node whether values can pass it on a CPU."""
    roles = {op: role_of_type(op) for op in set(placed.graph.ops)}
    return [
        bool(on_cpu) and roles[op] in {Role.COMPUTE, Role.RUNTIME} and op not in _NOT_ON_THE_WAY
        for op, on_cpu in zip(placed.graph.ops, placed.on_cpu, strict=True)
    ]


def _reached(start: Iterable[int], following: Callable[[int], Iterable[int]]) -> set[int]:
    found: set[int] = set()
    waiting = list(start)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += following(node)
    return found


def _in_flow_order(part: set[int], inputs: Sequence[Sequence[int]]) -> list[int]:
    """Return nodes with those that values come from before those that they go to.

    Within a loop there is no such order: there the graph's own order counts.
    """
    waits = {node: {s for s in inputs[node] if s in part} - {node} for node in part}
    wakes: dict[int, list[int]] = defaultdict(list)
    for node in sorted(part):
        for source in waits[node]:
            wakes[source].append(node)
    ordered: dict[int, None] = {}
    for first in (*(n for n in sorted(part) if not waits[n]), *sorted(part)):
        ready = [first]
        for node in ready:  # which grows
            if node in ordered:
                continue
            ordered[node] = None
            for after in wakes[node]:
                waits[after].discard(node)
                if not waits[after]:
                    ready.append(after)
    return list(ordered)


class _Part:
    """The nodes of a round trip in a recorded graph, and those around them."""

    def __init__(
        self,
        transfers: HostTransfers,
        recorded: RecordedGraphs,
        placed: PlacedGraph,
        part: Sequence[int],
    ) -> None:
        self._transfers = transfers
        self._placed = placed
        self._part = part
        self._rows = [recorded.rows.get((placed.function, n), []) for n in placed.graph.names]

    def round_trip(
        self, takes: Mapping[str, list[int]], gives: Mapping[str, list[int]]
    ) -> RoundTrip:
        """Return the round trip; `takes` and `gives` are the transfers by node."""
        placed, transfers = self._placed, self._transfers
        arriving, leaving = (
            sorted(t for name, of in side.items() if placed.find(name) in self._part for t in of)
            for side in (takes, gives)
        )
        near = self._near()
        every = {t for side in (takes, gives) for found in side.values() for t in found}
        nets = self._nets(near, every)
        nodes = {n for producer, consumers, _ in nets for n in (producer, *consumers)}
        nodes |= set(self._part)
        op_of = {node: self._op(node) for node in sorted(nodes)}
        basis, values = transfers.weighed(
            Net(op_of[producer], tuple(op_of[c] for c in consumers), own)
            for producer, consumers, own in nets
        )
        limit = transfers.totals([*arriving, *leaving]).time_ps
        row = next((r for node in self._part for r in self._rows[node]), None)
        came = transfers.totals(arriving)
        if not transfers.is_measured and not arriving:
            came = replace(came, count=None)
        return RoundTrip(
            host=str(transfers.transfers["host"].iloc[leaving[0]]),
            function=placed.function if row is None else transfers.function(row),
            # What a node on a device makes may be in host memory already: then nothing is copied.
            certainty="certain" if arriving else "likely",
            ops=tuple(
                op_of[node] for node in self._part if role_of_type(op_of[node].type) == Role.COMPUTE
            ),
            arriving=came,
            leaving=transfers.totals(leaving),
            basis=basis,
            values=values,
            on_cpu=frozenset(op.key for node, op in op_of.items() if placed.on_cpu[node]),
            cannot_move=frozenset(
                op.key
                for node, op in op_of.items()
                if node not in near or self._cannot_move(node, limit)
            ),
            op_of_key={op.key: op for op in op_of.values()},
        )

    def _op(self, node: int) -> RoundTripOp:
        rows, graph = self._rows[node], self._placed.graph
        if rows:
            return self._transfers.op(rows[0])
        name = graph.names[node]
        return RoundTripOp(f"{self._placed.function}/{name}", None, name, graph.ops[node])

    def _near(self) -> set[int]:
        """Return what may move: what it connects to on the CPU, and what is next to that."""
        on_way = _on_the_way(self._placed)
        beside: dict[int, set[int]] = defaultdict(set)
        for node, sources in enumerate(self._placed.inputs):
            for source, _ in sources:
                beside[node].add(source)
                beside[source].add(node)
        near = _reached(self._part, lambda node: (n for n in beside[node] if on_way[n]))
        return near.union(*(beside[node] for node in near))

    def _nets(
        self, near: set[int], transfers: set[int]
    ) -> list[tuple[int, tuple[int, ...], list[int]]]:
        """Return what goes from, or to, a node that may move, with its transfers."""
        placed = self._placed
        consumers: dict[tuple[int, int], dict[int, None]] = defaultdict(dict)
        for node, sources in enumerate(placed.inputs):
            for source in sources:
                consumers[source][node] = None
        copied: dict[int, list[tuple[int, int]]] = defaultdict(list)
        ends = self._transfers.transfers.iloc[sorted(transfers)]
        named = zip(sorted(transfers), ends["producer_name"], ends["consumer_name"], strict=True)
        for transfer, producer, consumer in named:
            if isinstance(producer, str) and (at := placed.find(producer)) >= 0:
                taker = placed.find(consumer) if isinstance(consumer, str) else -1
                copied[at].append((taker, transfer))
        nets = []
        for (node, _), takers in consumers.items():
            if node in near or not near.isdisjoint(takers):
                own = [t for taker, t in copied[node] if taker in takers or taker < 0]
                copied[node] = [entry for entry in copied[node] if entry[1] not in own]
                nets.append((node, tuple(takers), own))
        return nets

    def _cannot_move(self, node: int, limit_ps: int | None) -> bool:
        """Return whether an op stays, whatever other ops do.

        The graph's own ends and control flow do; so does an op on a device whose kernels take
        longer than the transfers, or for an unknown time.
        """
        placed = self._placed
        if role_of_type(placed.graph.ops[node]) != Role.COMPUTE or placed.on_cpu[node] is None:
            return True
        if placed.on_cpu[node]:
            return False
        rows = self._rows[node]
        if limit_ps is None or not rows:
            return True
        return int(self._transfers.ops["kernel_ps"].iloc[rows].sum()) > limit_ps
