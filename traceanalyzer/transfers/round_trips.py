"""Finds round trips, in which values leave a GPU for ops on the CPU and come back.

With a capture file, the recorded graph shows the ops in between. Without one, only single ops that
take a value from a GPU and send a value back are found.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias

import networkx as nx
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traceanalyzer.capture_file.document import CaptureFile, is_session
from traceanalyzer.capture_file.function_records import UNKNOWN, Instance
from traceanalyzer.model import Certainty
from traceanalyzer.model.figures import RoundTripTransfers
from traceanalyzer.placement.devices import CPU, DeviceNameError, parse_device
from traceanalyzer.tables.graph_nodes import OpRecord, base_names
from traceanalyzer.tables.vocabulary import Role, role_of_type
from traceanalyzer.units import PS_PER_US

_Place: TypeAlias = "tuple[str, str]"  # function and node
_ByNode: TypeAlias = "Mapping[str, list[int]]"  # transfers
_NOT_ON_THE_WAY: Final = frozenset({"_Arg", "_DeviceArg", "_Retval", "_DeviceRetval", "NoOp"})
_START, _END = -1, -2  # in place of nodes


class RoundTripOp(NamedTuple):
    """An op in a round trip."""

    op_id: str | None  #: None if the trace has no event for it
    name: str
    type: str


@dataclass(frozen=True, eq=False, kw_only=True)
class RoundTrip:
    """CPU ops between a transfer from a GPU and a transfer to a GPU."""

    host: str
    function: str | None  #: as tables name it
    certainty: Certainty  #: whether values take this way
    ops: tuple[RoundTripOp, ...]  #: in the order of the data flow, if known
    arriving: RoundTripTransfers
    leaving: RoundTripTransfers

    @property
    def order(self) -> tuple[int, int, str, tuple[RoundTripOp, ...]]:
        """The sort key: most bytes first, then most transfers."""
        return (
            -((self.arriving.bytes or 0) + (self.leaving.bytes or 0)),
            -((self.arriving.count or 0) + (self.leaving.count or 0)),
            self.function or "",
            tuple(op._replace(op_id=op.op_id or "") for op in self.ops),
        )


def round_trips(
    transfers: pd.DataFrame,
    ops: pd.DataFrame,
    capture_file: CaptureFile | None,
    records: Sequence[OpRecord | None] | None,
) -> list[RoundTrip]:
    """Return the round trips of a host, most bytes first.

    `records` are the ops' records in the capture file, by row of the op table.
    """
    host = _HostTransfers(transfers, ops)
    found: list[RoundTrip] = []
    if capture_file is not None and records is not None and len(host.leaving):
        found += _Recorded(host, records).round_trips(capture_file)
    known = {op.op_id for each in found for op in each.ops}
    found += host.round_trips_of_single_ops(known)
    return sorted(found, key=lambda round_trip: round_trip.order)


class _HostTransfers:
    """One host's transfers between host and device, by the ops at their host end."""

    def __init__(self, transfers: pd.DataFrame, ops: pd.DataFrame) -> None:
        self.transfers = transfers.reset_index(drop=True)
        self.ops = ops
        self.arriving: NDArray[np.int64] = np.flatnonzero(transfers["direction"] == "d2h")
        self.leaving: NDArray[np.int64] = np.flatnonzero(transfers["direction"] == "h2d")
        # Without a device's plane only the host's sends are recorded, but not the sends of ops on
        # a device (op_kernel.cc: they are not `expensive`).
        self.is_measured = bool(transfers["device"].notna().any())
        self.row_of = {str(op_id): row for row, op_id in enumerate(ops["op_id"])}

    def op(self, row: int) -> RoundTripOp:
        return RoundTripOp(*(str(self.ops[c].iloc[row]) for c in ("op_id", "name", "type")))

    def round_trips_of_single_ops(self, known: Iterable[str | None]) -> Iterator[RoundTrip]:
        """Yield the round trips of single ops, except ops in known round trips."""
        ops = self.ops
        computes = (ops["placement"] == "cpu") & (ops["role"] == Role.COMPUTE) & ~ops["is_eager"]
        members = set(ops["op_id"][computes]).difference(known)
        takes = self._by_op(self.arriving, "consumer")
        gives = self._by_op(self.leaving, "producer")
        for row in sorted(self.row_of[op_id] for op_id in members & takes.keys() & gives.keys()):
            op = self.op(row)
            yield self.round_trip(
                [op],
                takes[op.op_id],
                gives[op.op_id],
                certainty=ops["placement_certainty"].iloc[row],
                function=ops["function"].iloc[row],
            )

    def _by_op(self, transfers: NDArray[np.int64], end: str) -> dict[Any, list[int]]:
        column = self.transfers[end].iloc[transfers]
        found = column.groupby(column, observed=True).indices
        return {op_id: transfers[at].tolist() for op_id, at in found.items()}

    def round_trip(
        self,
        ops: Iterable[RoundTripOp],
        arriving: Sequence[int],
        leaving: Sequence[int],
        *,
        certainty: Certainty,
        function: object,
    ) -> RoundTrip:
        return RoundTrip(
            host=str(self.transfers["host"].iloc[leaving[0]]),
            function=function if isinstance(function, str) else None,
            certainty=certainty,
            ops=tuple(ops),
            arriving=self._totals(arriving),
            leaving=self._totals(leaving),
        )

    def _totals(self, transfers: Sequence[int]) -> RoundTripTransfers:
        part = self.transfers.iloc[list(transfers)]
        sums = (part[c].sum(min_count=1) for c in ("bytes", "duration_ps", "exposed_ps"))
        size, took, exposed = (None if pd.isna(each) else int(each) for each in sums)
        return RoundTripTransfers(
            count=len(part),
            bytes=size,
            total_us=None if took is None else took / PS_PER_US,
            exposed_us=None if exposed is None else exposed / PS_PER_US,
        )


# --- in the recorded graphs ----------------------------------------------------------------------


class _PlacedGraph:
    """The graph of one placed instance of a function, with node indices as nodes."""

    def __init__(self, instance: Instance) -> None:
        self.graph = graph = instance.input
        on_cpu = {device: _is_cpu(device) for device in set(instance.assigned)}
        self.on_cpu = [on_cpu[device] for device in instance.assigned]  # None: not recorded
        self.flow: nx.DiGraph[int] = nx.DiGraph()
        self.flow.add_nodes_from(range(len(graph)))
        self.flow.add_edges_from(
            (n, node) for node in range(len(graph)) for n, _ in graph.sources(node)
        )

    @cached_property
    def _passable(self) -> nx.DiGraph[int]:
        """The part of the graph on the CPU that values can pass through."""
        ops = self.graph.ops
        roles = {op: role_of_type(op) for op in set(ops) - _NOT_ON_THE_WAY}
        passes = {op for op, role in roles.items() if role in {Role.COMPUTE, Role.RUNTIME}}
        nodes = (node for node, op in enumerate(ops) if self.on_cpu[node] and op in passes)
        return self.flow.subgraph(nodes).copy()

    def find(self, name: str) -> int:
        for base in (name, *base_names(name)):
            if (at := self.graph.index(base)) != UNKNOWN:
                return at
        return UNKNOWN

    def find_all(self, names: Iterable[str]) -> set[int]:
        return {node for name in names if (node := self.find(name)) != UNKNOWN}

    def parts(self, first: set[int], last: set[int]) -> Iterator[list[int]]:
        """Yield the connected parts of the graph between arriving and leaving transfers.

        Within a part, producers come before consumers, except in loops. Nodes in `first` take a
        value from a device, and nodes in `last` send one to a device.
        """
        bounded: Any = self._passable.copy()
        bounded.add_nodes_from((_START, _END))
        bounded.add_edges_from((_START, node) for node in first if node in self._passable)
        bounded.add_edges_from((node, _END) for node in last if node in self._passable)
        members = nx.descendants(bounded, _START) & nx.ancestors(bounded, _END)
        inside: Any = self._passable.subgraph(members)
        for part in sorted(nx.weakly_connected_components(inside), key=min):
            loops: Any = nx.condensation(inside.subgraph(part))
            nodes: dict[Any, list[int]] = {
                loop: sorted(found) for loop, found in loops.nodes(data="members")
            }
            order = nx.lexicographical_topological_sort(loops, key=nodes.__getitem__)
            yield [node for loop in order for node in nodes[loop]]


class _Recorded:
    """Finds a host's round trips in the recorded graphs of functions."""

    def __init__(self, host: _HostTransfers, records: Sequence[OpRecord | None]) -> None:
        self._host = host
        self._place: dict[int | None, _Place] = {}
        self._row: dict[_Place, int] = {}
        called: dict[str, set[str]] = defaultdict(set)
        for row, (record, label) in enumerate(zip(records, host.ops["function"], strict=True)):
            if record is not None and record.node:
                self._place[row] = place = (record.function, record.node)
                self._row.setdefault(place, row)
                if isinstance(label, str):
                    called[label].add(record.function)
        #: Full names of functions by their name in tables, if that is unique.
        self._full_names = {label: min(of) for label, of in called.items() if len(of) == 1}

    def round_trips(self, capture_file: CaptureFile) -> Iterator[RoundTrip]:
        takes = self._by_function(self._host.arriving, "consumer", "producer")
        gives = self._by_function(self._host.leaving, "producer", "consumer")
        seen: set[tuple[str, frozenset[str]]] = set()
        for name in sorted(gives):
            # Each run of a session executes a part of its graph.
            function = None if is_session(name) else capture_file.function(name)
            for instance in function.instances if function is not None else ():
                placed = _PlacedGraph(instance)
                if self._host.is_measured:
                    first = placed.find_all(takes[name])
                else:
                    first = {n for source, n in placed.flow.edges if placed.on_cpu[source] is False}
                for part in placed.parts(first, placed.find_all(gives[name])):
                    key = (name, frozenset(placed.graph.names[node] for node in part))
                    if key in seen:
                        continue
                    seen.add(key)
                    round_trip = self._round_trip(name, placed, part, takes[name], gives[name])
                    if round_trip.ops:  # otherwise it is only control flow of the runtime
                        yield round_trip

    def _by_function(
        self, rows: NDArray[np.int64], end: str, far_end: str
    ) -> dict[str, dict[str, list[int]]]:
        """Return the transfers at `rows`, by function and by the node at their `end`."""
        found: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        row_of = self._host.row_of
        columns = [end, f"{end}_name", "function", far_end]
        table = self._host.transfers[columns].iloc[rows]
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

    def _round_trip(
        self,
        function: str,
        placed: _PlacedGraph,
        part: Sequence[int],
        takes: _ByNode,
        gives: _ByNode,
    ) -> RoundTrip:
        """Return the round trip of a part. `takes` and `gives` map nodes to their transfers."""
        arriving, leaving = (
            sorted(t for name, of in side.items() if placed.find(name) in part for t in of)
            for side in (takes, gives)
        )
        names = [placed.graph.names[node] for node in part]
        rows = [self._row.get((function, name)) for name in names]
        ops = [
            RoundTripOp(None, name, placed.graph.ops[node]) if row is None else self._host.op(row)
            for node, name, row in zip(part, names, rows, strict=True)
        ]
        row = next((each for each in rows if each is not None), None)
        round_trip = self._host.round_trip(
            (op for op in ops if role_of_type(op.type) == Role.COMPUTE),
            arriving,
            leaving,
            # A device op's output can be in host memory already: then nothing is copied.
            certainty="certain" if arriving else "likely",
            function=function if row is None else self._host.ops["function"].iloc[row],
        )
        if self._host.is_measured or arriving:
            return round_trip
        return replace(round_trip, arriving=replace(round_trip.arriving, count=None))


def _is_cpu(device: str) -> bool | None:
    try:
        return parse_device(device).type == CPU if device else None
    except DeviceNameError:
        return None
