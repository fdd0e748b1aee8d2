"""Round trips: values leave a GPU for ops on the CPU and come back.

With a capture, the graph that ran shows which ops are on the way (`recorded_round_trips`). Without
one, only transfers count as proof: the values that one op takes from a GPU and sends back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from traceanalyzer.model.figures import RoundTripTransfers
from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.transfers.cheapest_move import Value, cheapest_move
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from traceanalyzer.model import Certainty
    from traceanalyzer.transfers.cheapest_move import Move

_MAX_OPS: Final = 2000  # for more, the cheapest move is not computed
_Basis: TypeAlias = Literal["bytes", "time"]


@dataclass(frozen=True)
class RoundTripOp:
    """An op in a round trip, or next to one."""

    key: str  #: its op id, or function and node if it has no row in the op table
    op_id: str | None
    name: str
    type: str


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
    arriving: RoundTripTransfers
    leaving: RoundTripTransfers
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

    def op_of(self, node: str) -> RoundTripOp:
        """Return the op at an end of a transfer."""
        row = self.row_of.get(node)
        return (
            RoundTripOp(node, None, node.removeprefix("name:"), "") if row is None else self.op(row)
        )

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

    def totals(self, transfers: Iterable[int]) -> RoundTripTransfers:
        """Sum transfers up; None where nothing is known."""
        part = self.transfers.iloc[list(transfers)]
        sums = (part[c].sum(min_count=1) for c in ("bytes", "duration_ps", "exposed_ps"))
        size, took, exposed = (None if pd.isna(each) else int(each) for each in sums)
        return RoundTripTransfers(
            count=len(part),
            bytes=size,
            total_us=None if took is None else took / PS_PER_US,
            exposed_us=None if exposed is None else exposed / PS_PER_US,
        )

    def round_trip(
        self,
        certainty: Certainty,
        ops: Sequence[RoundTripOp],
        transfers: tuple[Sequence[int], Sequence[int]],
        nets: Sequence[Net],
        **fields: Any,  # noqa: ANN401 - of a round trip
    ) -> RoundTrip:
        """Return a round trip with its transfers, arriving and leaving."""
        basis, values = self._weighed(nets)
        came, left = map(self.totals, transfers)
        return RoundTrip(
            host=str(self.transfers["host"].iloc[transfers[1][0]]),
            certainty=certainty,
            ops=tuple(ops),
            basis=basis,
            values=values,
            **{"arriving": came, "leaving": left, **fields},
        )

    def _weighed(self, nets: Sequence[Net]) -> tuple[_Basis, tuple[Value[RoundTripOp], ...]]:
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
    transfers: HostTransfers, found: Collection[str | None]
) -> Iterator[RoundTrip]:
    """Find the round trips of single ops that transfers alone prove.

    Args:
        transfers: The transfers of a host.
        found: Ids of ops that are in a round trip already.
    """
    takes = transfers.by_op(transfers.arriving, "consumer")
    gives = transfers.by_op(transfers.leaving, "producer")
    for row in sorted(takes.keys() & gives.keys()):
        op = transfers.op(row)
        if not transfers.is_member[row] or op.op_id in found:
            continue
        nets = [net for own in (takes[row], gives[row]) for net in _nets(transfers, own)]
        others = {each for net in nets for each in (net.producer, *net.consumers)} - {op}
        yield transfers.round_trip(
            transfers.ops["placement_certainty"].iloc[row],
            [op],
            (takes[row], gives[row]),
            nets,
            function=transfers.function(row),
            on_cpu=frozenset({op}),
            cannot_move=frozenset(others),
        )


def _nets(transfers: HostTransfers, own: Sequence[int]) -> Iterator[Net]:
    """Yield the values that these transfers carry from op to op."""
    table = transfers.transfers.iloc[list(own)]
    for producer, part in table.groupby("source", observed=True, sort=False):
        consumers = tuple(transfers.op_of(each) for each in dict.fromkeys(part["target"]))
        yield Net(transfers.op_of(str(producer)), consumers, part.index.tolist())
