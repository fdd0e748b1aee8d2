"""Round trips in the graphs that a capture recorded: the nodes between transfers."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import networkx as nx

from traceanalyzer.capture_file.document import is_session
from traceanalyzer.capture_file.function_records import UNKNOWN
from traceanalyzer.placement.devices import CPU, DeviceNameError, parse_device
from traceanalyzer.tables.graph_nodes import base_names
from traceanalyzer.tables.vocabulary import Role, role_of_type
from traceanalyzer.transfers.round_trips import Net, RoundTripOp
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from traceanalyzer.capture_file.document import CaptureFile
    from traceanalyzer.capture_file.function_records import Instance
    from traceanalyzer.tables.graph_nodes import OpRecord
    from traceanalyzer.transfers.round_trips import HostTransfers, RoundTrip

_Place: TypeAlias = "tuple[str, str]"  # function and node
_ByNode: TypeAlias = "Mapping[str, list[int]]"  # transfers
_NOT_ON_THE_WAY: Final = frozenset({"_Arg", "_DeviceArg", "_Retval", "_DeviceRetval", "NoOp"})
_START, _END = -1, -2  # in place of nodes


def recorded_round_trips(
    transfers: HostTransfers, capture_file: CaptureFile, records: Sequence[OpRecord | None]
) -> Iterator[RoundTrip]:
    """Find the round trips of a host in its recorded graphs.

    Args:
        transfers: The transfers of the host.
        capture_file: Its capture file.
        records: The record in the capture file for each row of the op table.
    """
    if not len(transfers.leaving):
        return
    recorded = _Recorded(transfers, records)
    takes = recorded.by_function(transfers.arriving, "consumer", "producer")
    gives = recorded.by_function(transfers.leaving, "producer", "consumer")
    seen: set[tuple[str, frozenset[str]]] = set()
    for name in sorted(gives):
        # Each run of a session executes a part of its graph.
        function = None if is_session(name) else capture_file.function(name)
        for instance in function.instances if function is not None else ():
            placed = _PlacedGraph(name, instance)
            if transfers.is_measured:
                first = placed.find_all(takes[name])
            else:
                first = {n for source, n in placed.flow.edges if placed.on_cpu[source] is False}
            for part in placed.parts(first, placed.find_all(gives[name])):
                key = (name, frozenset(placed.graph.names[node] for node in part))
                if key in seen:
                    continue
                seen.add(key)
                round_trip = recorded.round_trip(placed, part, takes[name], gives[name])
                if round_trip.ops:  # otherwise it is only control flow of the runtime
                    yield round_trip


class _PlacedGraph:
    """The graph of one placed instance of a function; nodes by number."""

    def __init__(self, function: str, instance: Instance) -> None:
        self.function = function
        self.graph = graph = instance.input
        on_cpu = {device: _is_cpu(device) for device in set(instance.assigned)}
        self.on_cpu = [on_cpu[device] for device in instance.assigned]  # None: not recorded
        roles = {op: role_of_type(op) for op in set(graph.ops)}
        self.role = [roles[op] for op in graph.ops]
        #: The nodes that take each value, by node and output.
        self.takers: dict[tuple[int, int], dict[int, None]] = defaultdict(dict)
        for node in range(len(graph)):
            for value in graph.sources(node):
                self.takers[value][node] = None
        self.flow: nx.DiGraph[int] = nx.DiGraph()
        self.flow.add_nodes_from(range(len(graph)))
        self.flow.add_edges_from((n, taker) for (n, _), of in self.takers.items() for taker in of)

    @cached_property
    def passable(self) -> nx.DiGraph[int]:
        """The part of the graph that values can pass on a CPU."""
        passes = (
            node
            for node, op in enumerate(self.graph.ops)
            if self.on_cpu[node]
            and self.role[node] in {Role.COMPUTE, Role.RUNTIME}
            and op not in _NOT_ON_THE_WAY
        )
        passable: nx.DiGraph[int] = self.flow.subgraph(passes).copy()
        return passable

    @cached_property
    def _connected(self) -> dict[int, set[int]]:
        parts = nx.weakly_connected_components(self.passable)
        return {node: part for part in parts for node in part}

    def find(self, name: str) -> int:
        """Return the node of that name, or the node it was made from; -1 if there is neither."""
        for base in (name, *base_names(name)):
            if (at := self.graph.index(base)) != UNKNOWN:
                return at
        return UNKNOWN

    def find_all(self, names: Iterable[str]) -> set[int]:
        """Return the nodes with the given names that are in the graph."""
        return {node for name in names if (node := self.find(name)) != UNKNOWN}

    def parts(self, first: set[int], last: set[int]) -> Iterator[list[int]]:
        """Yield connected parts of the nodes between arriving and leaving transfers.

        Within a part, producers come before consumers; nodes of a loop have no such order, so they
        are in the order of the graph.

        Args:
            first: Nodes that take a value from a device.
            last: Nodes that send a value to it.
        """
        bounded: Any = self.passable.copy()
        bounded.add_nodes_from((_START, _END))
        bounded.add_edges_from((_START, node) for node in first if node in self.passable)
        bounded.add_edges_from((node, _END) for node in last if node in self.passable)
        members = nx.descendants(bounded, _START) & nx.ancestors(bounded, _END)
        inside: Any = self.passable.subgraph(members)
        for part in sorted(nx.weakly_connected_components(inside), key=min):
            loops: Any = nx.condensation(inside.subgraph(part))
            nodes: dict[Any, list[int]] = {
                loop: sorted(found) for loop, found in loops.nodes(data="members")
            }
            order = nx.lexicographical_topological_sort(loops, key=nodes.__getitem__)
            yield [node for loop in order for node in nodes[loop]]

    def near(self, part: Sequence[int]) -> set[int]:
        """Return the nodes that can move: a part, nodes on the CPU linked to it, and neighbors."""
        connected = self._connected[part[0]]
        return connected.union(*(nx.all_neighbors(self.flow, node) for node in connected))


class _Recorded:
    """A host's ops and transfers, by their function and node in the recorded graphs."""

    def __init__(self, transfers: HostTransfers, records: Sequence[OpRecord | None]) -> None:
        self._transfers = transfers
        self._place: dict[int | None, _Place] = {}
        self._rows: dict[_Place, list[int]] = defaultdict(list)
        called: dict[str, set[str]] = defaultdict(set)
        for row, (record, label) in enumerate(zip(records, transfers.ops["function"], strict=True)):
            if record is not None and record.node:
                self._place[row] = place = (record.function, record.node)
                self._rows[place].append(row)
                if isinstance(label, str):
                    called[label].add(record.function)
        #: Full names of functions by their name in tables, if that is unique.
        self._full_names = {label: min(of) for label, of in called.items() if len(of) == 1}

    def by_function(
        self, rows: NDArray[np.int64], end: str, far_end: str
    ) -> dict[str, dict[str, list[int]]]:
        """Return transfers by function and node at one of their ends."""
        found: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        row_of = self._transfers.row_of
        columns = [end, f"{end}_name", "function", far_end]
        table = self._transfers.transfers[columns].iloc[rows]
        for _, part in table.groupby(columns, observed=True, dropna=False, sort=False):
            op_id, name, label, far = part.iloc[0]
            place = self._place.get(row_of.get(op_id))
            if place is None and isinstance(name, str):
                there = self._place.get(row_of.get(far))
                function = self._full_names.get(label) or (there[0] if there else None)
                place = None if function is None else (function, name)
            if place is not None:
                found[place[0]][place[1]] += part.index.tolist()
        return found

    def round_trip(
        self, placed: _PlacedGraph, part: Sequence[int], takes: _ByNode, gives: _ByNode
    ) -> RoundTrip:
        """Return a round trip; `takes` and `gives` are the transfers by node."""
        transfers = self._transfers
        arriving, leaving = (
            sorted(t for name, of in side.items() if placed.find(name) in part for t in of)
            for side in (takes, gives)
        )
        came = transfers.totals(arriving)
        if not transfers.is_measured and not arriving:
            came = replace(came, count=None)
        near = placed.near(part)
        every = {t for side in (takes, gives) for of in side.values() for t in of}
        numbered = list(self._nets(placed, near, sorted(every)))
        nodes = {n for node, takers, _ in numbered for n in (node, *takers)}.union(part)
        op_of = {node: self._op(placed, node) for node in nodes}
        limit_us = transfers.totals([*arriving, *leaving]).total_us
        row = next((r for node in part for r in self._rows_of(placed, node)), None)
        return transfers.round_trip(
            # A device op's output can be in host memory already: then nothing is copied.
            "certain" if arriving else "likely",
            [op_of[n] for n in part if role_of_type(op_of[n].type) == Role.COMPUTE],
            (arriving, leaving),
            [Net(op_of[n], tuple(op_of[t] for t in takers), own) for n, takers, own in numbered],
            arriving=came,
            function=placed.function if row is None else transfers.function(row),
            on_cpu=frozenset(op for node, op in op_of.items() if placed.on_cpu[node]),
            cannot_move=frozenset(
                op
                for node, op in op_of.items()
                if node not in near or self._stays(placed, node, limit_us)
            ),
        )

    def _rows_of(self, placed: _PlacedGraph, node: int) -> list[int]:
        return self._rows.get((placed.function, placed.graph.names[node]), [])

    def _op(self, placed: _PlacedGraph, node: int) -> RoundTripOp:
        for row in self._rows_of(placed, node):
            return self._transfers.op(row)
        name = placed.graph.names[node]
        return RoundTripOp(f"{placed.function}/{name}", None, name, placed.graph.ops[node])

    def _nets(
        self, placed: _PlacedGraph, near: set[int], transfers: Sequence[int]
    ) -> Iterator[tuple[int, tuple[int, ...], list[int]]]:
        """Yield the values from or to a node that can move, with their transfers."""
        copied: dict[int, list[tuple[int, int]]] = defaultdict(list)
        ends = self._transfers.transfers.iloc[list(transfers)]
        named = zip(transfers, ends["producer_name"], ends["consumer_name"], strict=True)
        for transfer, producer, consumer in named:
            if isinstance(producer, str) and (at := placed.find(producer)) != UNKNOWN:
                taker = placed.find(consumer) if isinstance(consumer, str) else UNKNOWN
                copied[at].append((taker, transfer))
        for (node, _), takers in placed.takers.items():
            if node in near or not near.isdisjoint(takers):
                own = [t for taker, t in copied[node] if taker in takers or taker == UNKNOWN]
                copied[node] = [entry for entry in copied[node] if entry[1] not in own]
                yield node, tuple(takers), own

    def _stays(self, placed: _PlacedGraph, node: int, limit_us: float | None) -> bool:
        """Return whether an op must stay in any case.

        The graph's inputs, outputs and control flow must stay; so must a device op whose kernels
        take longer than the transfers, or for an unknown time.
        """
        if placed.role[node] != Role.COMPUTE or placed.on_cpu[node] is None:
            return True
        rows = self._rows_of(placed, node)
        if placed.on_cpu[node] or limit_us is None or not rows:
            return not placed.on_cpu[node]
        return self._transfers.ops["kernel_ps"].iloc[rows].sum() / PS_PER_US > limit_us


def _is_cpu(device: str) -> bool | None:
    try:
        return parse_device(device).type == CPU if device else None
    except DeviceNameError:
        return None
