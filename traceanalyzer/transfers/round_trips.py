"""Round trips: values leave a GPU for ops on the CPU and come back.

With a capture, the graph that ran shows which ops are on the way (`recorded_round_trips`). Without
one, only transfers count as proof: the values that an op takes from a GPU and sends back. If one op
takes values and another op of the same function sends some, they are probably connected, since a
function is one computation. Transfers do not show which ops lie between.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.transfers.cheapest_move import Value, cheapest_move

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from traceanalyzer.model import Certainty
    from traceanalyzer.transfers.cheapest_move import Move

    _ByOp: TypeAlias = Mapping[int, list[int]]

_MAX_OPS: Final = 2000  # for more, the cheapest move is not computed
_Basis: TypeAlias = Literal["bytes", "time"]


@dataclass(frozen=True)
class RoundTripOp:
    """An op in a round trip, or next to one."""

    key: str  #: its op id, or function and node if it has no row in the op table
    op_id: str | None
    name: str
    type: str


@dataclass(frozen=True, kw_only=True)
class TransferTotals:
    """The transfers of a round trip in one direction: sums of the known values, or None."""

    count: int | None  #: None if they are necessary but not recorded
    bytes: int | None
    time_ps: int | None
    exposed_ps: int | None  #: how long a device idled because of them


class Net(NamedTuple):
    """An op in or next to a round trip, the ops that take one of its values, and its transfers."""

    producer: RoundTripOp
    consumers: tuple[RoundTripOp, ...]
    transfers: Sequence[int]


@dataclass(frozen=True, eq=False, kw_only=True)
class RoundTrip:
    """Ops on the CPU between a transfer from a GPU and one to it."""

    host: str
    function: str | None  #: as tables name it
    certainty: Certainty  #: that values take this way
    ops: tuple[RoundTripOp, ...]  #: in the order of the data flow, if known
    between: tuple[RoundTripOp, ...] = ()  #: other ops of the function that could lie between
    arriving: TransferTotals
    leaving: TransferTotals
    basis: _Basis  #: unit of transfer costs: bytes, or time if only that is known
    #: The values between its ops and their neighbors, with the cost of transfers.
    values: tuple[Value[RoundTripOp], ...]
    on_cpu: frozenset[RoundTripOp]  #: the ops on the CPU among these
    #: Ops that stay: ops farther away, and ops whose kernels take longer than the transfers.
    cannot_move: frozenset[RoundTripOp]

    @property
    def _every_op(self) -> set[RoundTripOp]:
        return {op for value in self.values for op in (value.producer, *value.consumers)}

    @property
    def is_weighed(self) -> bool:
        """Whether it is small enough to compute the cheapest move."""
        return len(self._every_op) <= _MAX_OPS

    def cheapest_move(self, cannot_move: Callable[[RoundTripOp], bool]) -> Move[RoundTripOp] | None:
        """Return the ops to move so that least is copied; None if not weighed or nothing is saved.

        Args:
            cannot_move: Whether an op must stay, such as one on the CPU without a GPU kernel.
        """
        if not self.is_weighed:
            return None
        stay = self.cannot_move | set(filter(cannot_move, self._every_op))
        return cheapest_move(self.values, self.on_cpu, stay)

    @property
    def order(self) -> tuple[int, int, str, list[str]]:
        """Sort key: most copied first."""
        return (
            -((self.arriving.bytes or 0) + (self.leaving.bytes or 0)),
            -((self.arriving.count or 0) + (self.leaving.count or 0)),
            self.function or "",
            [op.key for op in self.ops],
        )


class HostTransfers:
    """The transfers of one host between host and device, by the ops on the host's side."""

    def __init__(self, transfers: pd.DataFrame, ops: pd.DataFrame) -> None:
        """Prepare from the rows of one host."""
        self.transfers = transfers.reset_index(drop=True)
        self.ops = ops
        self.arriving: NDArray[np.int64] = np.flatnonzero(transfers["direction"] == "d2h")
        self.leaving: NDArray[np.int64] = np.flatnonzero(transfers["direction"] == "h2d")
        # Without a device's plane only the host's sends are recorded, but not the sends of ops on
        # a device (op_kernel.cc: they are not `expensive`).
        self.is_measured = bool(transfers["device"].notna().any())
        self.row_of = {str(op_id): row for row, op_id in enumerate(ops["op_id"])}
        self.is_member: NDArray[np.bool_] = (
            (ops["placement"] == "cpu") & (ops["role"] == Role.COMPUTE) & ~ops["is_eager"]
        ).to_numpy()

    def op(self, row: int) -> RoundTripOp:
        """Return the op of a row of the op table."""
        op_id, name, op_type = (str(self.ops[c].iloc[row]) for c in ("op_id", "name", "type"))
        return RoundTripOp(op_id, op_id, name, op_type)

    def function(self, row: int) -> str | None:
        """Return the function of a row of the op table, None if it is unknown."""
        function = self.ops["function"].iloc[row]
        return function if isinstance(function, str) else None

    def by_op(self, transfers: NDArray[np.int64], end: str) -> dict[int, list[int]]:
        """Return the transfers at whose given end (`source` or `target`) each op table row is."""
        column = self.transfers[end].iloc[transfers]
        return {
            self.row_of[op_id]: transfers[at].tolist()
            for op_id, at in column.groupby(column, observed=True).indices.items()
            if op_id in self.row_of
        }

    def totals(self, transfers: Sequence[int]) -> TransferTotals:
        """Sum transfers up."""
        part = self.transfers.iloc[list(transfers)]
        sums = (part[c].sum(min_count=1) for c in ("bytes", "duration_ps", "exposed_ps"))
        size, took, exposed = (None if pd.isna(each) else int(each) for each in sums)
        return TransferTotals(count=len(part), bytes=size, time_ps=took, exposed_ps=exposed)

    def weighed(self, nets: Sequence[Net]) -> tuple[_Basis, tuple[Value[RoundTripOp], ...]]:
        """Return the values between ops with their bytes or, if no bytes are known, their time."""
        bases: tuple[tuple[_Basis, str], ...] = (("bytes", "bytes"), ("time", "duration_ps"))
        for basis, name in bases:
            sizes = self.transfers[name].fillna(0).to_numpy(np.int64)
            is_known = self.transfers[name].notna().to_numpy()
            owns = [list(net.transfers) for net in nets]
            costs = [int(sizes[own].sum()) if own and is_known[own].all() else None for own in owns]
            values = tuple(
                Value(net.producer, net.consumers, cost)
                for net, cost in zip(nets, costs, strict=True)
            )
            if any(value.cost is not None for value in values):
                return basis, values
        return "bytes", values


def measured_round_trips(
    transfers: HostTransfers, found: Collection[str | None], *, guess: bool
) -> Iterator[RoundTrip]:
    """Find the round trips that transfers alone prove.

    Args:
        transfers: The transfers of a host.
        found: Ids of ops that are in a round trip already.
        guess: Whether to assume that ops of one function are connected.
    """
    takes, gives = (
        {
            row: own
            for row, own in transfers.by_op(rows, end).items()
            if transfers.is_member[row] and transfers.op(row).op_id not in found
        }
        for rows, end in ((transfers.arriving, "consumer"), (transfers.leaving, "producer"))
    )
    both = takes.keys() & gives.keys()
    for row in sorted(both):
        certainty: Certainty = transfers.ops["placement_certainty"].iloc[row]
        yield _round_trip(transfers, [row], takes, gives, certainty)
    if not guess:
        return
    start = transfers.transfers["start_ps"].to_numpy(np.int64)
    ends: dict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for k, side in enumerate((takes, gives)):
        for row in sorted(side.keys() - both):
            if (function := transfers.function(row)) is not None:
                ends[function][k].append(row)
    for _, (first, last) in sorted(ends.items()):
        came = [t for row in first for t in takes[row]]
        left = [t for row in last for t in gives[row]]
        if came and left and start[left].max() > start[came].min():
            yield _round_trip(transfers, [*first, *last], takes, gives, "likely")


def _round_trip(
    transfers: HostTransfers, rows: Sequence[int], takes: _ByOp, gives: _ByOp, certainty: Certainty
) -> RoundTrip:
    """Return the round trip of one op, or of several ops of a function."""
    ops = tuple(map(transfers.op, rows))
    arriving, leaving = (
        sorted(t for row in rows for t in of.get(row, ())) for of in (takes, gives)
    )
    nets = [*_nets(transfers, arriving), *_nets(transfers, leaving)]
    function = transfers.function(rows[0])
    between: tuple[RoundTripOp, ...] = ()
    if len(rows) > 1:
        # Keep the takers and givers on one side: the size of the values between them is unknown,
        # and so is their way.
        nets.append(Net(ops[0], tuple(sorted(ops, key=lambda op: op.key)), ()))
        is_between = transfers.is_member & (transfers.ops["function"] == function).to_numpy()
        is_between[list(rows)] = False
        between = tuple(map(transfers.op, np.flatnonzero(is_between).tolist()))
    basis, values = transfers.weighed(nets)
    return RoundTrip(
        host=str(transfers.transfers["host"].iloc[arriving[0]]),
        function=function,
        certainty=certainty,
        ops=ops,
        between=between,
        arriving=transfers.totals(arriving),
        leaving=transfers.totals(leaving),
        basis=basis,
        values=values,
        on_cpu=frozenset(ops),
        cannot_move=frozenset(op for net in nets for op in (net.producer, *net.consumers))
        - frozenset(ops),
    )


def _nets(transfers: HostTransfers, own: Sequence[int]) -> Iterator[Net]:
    """Yield the values that these transfers carry from op to op."""
    table = transfers.transfers
    by_producer: dict[str, list[int]] = defaultdict(list)
    for transfer, producer in zip(own, table["source"].iloc[list(own)], strict=True):
        by_producer[producer].append(transfer)
    for producer, part in by_producer.items():
        consumers = dict.fromkeys(table["target"].iloc[part])
        yield Net(_op(transfers, producer), tuple(_op(transfers, c) for c in consumers), part)


def _op(transfers: HostTransfers, node: str) -> RoundTripOp:
    row = transfers.row_of.get(node)
    if row is not None:
        return transfers.op(row)
    return RoundTripOp(node, None, node.removeprefix("name:"), "")
