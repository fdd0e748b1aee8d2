"""Round trips: values leave a GPU for ops on the CPU and come back.

With a capture, the graph that ran says which ops are on the way (`recorded_round_trips`). Without
one, only what the transfers themselves prove counts (`measured_round_trips`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.transfers.cheapest_move import Value, cheapest_move
from traceanalyzer.transfers.ends import codes_of, grouped, op_ends, text_or_none

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from traceanalyzer.model import Certainty
    from traceanalyzer.transfers.cheapest_move import Move

_MAX_OPS: Final = 2000  # beyond that, no cheapest move is looked for
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

    count: int | None  #: None if they are not recorded, and only known to be necessary
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
    certainty: Certainty  #: that values go this way
    ops: tuple[RoundTripOp, ...]  #: in the order in which values pass, if that is known
    between: tuple[RoundTripOp, ...] = ()  #: other ops of the function that may lie between
    arriving: TransferTotals
    leaving: TransferTotals
    basis: _Basis  #: what its transfers are weighed by: bytes, unless only their time is known
    values: tuple[Value, ...]  #: from op to op in it and next to it, with the cost of transfers
    on_cpu: frozenset[str]  #: keys of the ops on the CPU among these
    #: Keys of ops that stay: those beyond, and those whose kernels take longer than the transfers.
    cannot_move: frozenset[str]
    op_of_key: Mapping[str, RoundTripOp]  #: all these ops

    @property
    def is_weighed(self) -> bool:
        """Whether it is small enough for the cheapest move to be looked for."""
        return len(self.op_of_key) <= _MAX_OPS

    def cheapest_move(self, cannot_move: Callable[[RoundTripOp], bool]) -> Move | None:
        """Return the ops to move so that least is copied; None if it is not weighed or saves none.

        Args:
            cannot_move: Whether an op must stay, such as one on the CPU without a GPU kernel.
        """
        if not self.is_weighed:
            return None
        stay = self.cannot_move | {key for key, op in self.op_of_key.items() if cannot_move(op)}
        return cheapest_move(self.values, self.on_cpu, stay)

    @property
    def order(self) -> tuple[int, int, str, list[str]]:
        """Sort key: those that copy most first."""
        return (
            -((self.arriving.bytes or 0) + (self.leaving.bytes or 0)),
            -((self.arriving.count or 0) + (self.leaving.count or 0)),
            self.function or "",
            [op.key for op in self.ops],
        )


class HostTransfers:
    """The transfers of one host between host and device, by the ops on the host's side."""

    def __init__(self, transfers: pd.DataFrame, ops: pd.DataFrame) -> None:
        """Take the rows of one host."""
        self.transfers = transfers
        self.ops = ops
        self.ends = op_ends(transfers)
        self.arriving: NDArray[np.int64] = np.flatnonzero(transfers["direction"] == "d2h")
        self.leaving: NDArray[np.int64] = np.flatnonzero(transfers["direction"] == "h2d")
        # Without a device's plane only the host's sends are known, and those of the ops on a device
        # leave none (op_kernel.cc: they are not `expensive`).
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
        return text_or_none(self.ops["function"].iloc[row])

    def by_op(self, transfers: NDArray[np.int64], end: str) -> dict[int, list[int]]:
        """Return the transfers of each row of the op table that is at that end of them."""
        column = self.transfers[end]
        parts = (
            (self.row_of.get(str(column.iloc[part[0]])), part.tolist())
            for part in grouped(transfers, [codes_of(column)])
        )
        return {row: part for row, part in parts if row is not None}

    def totals(self, transfers: Sequence[int]) -> TransferTotals:
        """Sum transfers up."""
        part = self.transfers.iloc[list(transfers)]
        sums = [part[c].dropna() for c in ("bytes", "duration_ps", "exposed_ps")]
        size, took, exposed = (int(s.sum()) if len(s) else None for s in sums)
        return TransferTotals(count=len(part), bytes=size, time_ps=took, exposed_ps=exposed)

    def weighed(self, nets: Iterable[Net]) -> tuple[_Basis, tuple[Value, ...]]:
        """Return what goes from op to op with its bytes or, if no bytes are known, its time."""
        nets = list(nets)
        by_bytes, by_time = (self._values(nets, column) for column in ("bytes", "duration_ps"))
        has_bytes = any(value.cost is not None for value in by_bytes)
        has_time = any(value.cost is not None for value in by_time)
        return ("time", by_time) if has_time and not has_bytes else ("bytes", by_bytes)

    def _values(self, nets: Iterable[Net], column: str) -> tuple[Value, ...]:
        costs = self.transfers[column]
        values = []
        for producer, consumers, transfers in nets:
            part = costs.iloc[list(transfers)]
            cost = None if part.isna().any() or part.empty else int(part.sum())
            keys = tuple(consumer.key for consumer in consumers)
            values.append(Value(producer=producer.key, consumers=keys, cost=cost))
        return tuple(values)
