"""The transfers of one host between host and device, by the ops on the host's side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.transfers.cheapest_move import Value
from traceanalyzer.transfers.ends import codes_of, grouped, op_ends

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd
    from numpy.typing import NDArray


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

    def values(
        self, nets: Iterable[tuple[str, tuple[str, ...], Sequence[int]]], column: str
    ) -> tuple[Value, ...]:
        """Return what goes from op to op, weighed by a column.

        Args:
            nets: Who makes each value, who takes it, and its transfers.
            column: `bytes` or `duration_ps`. A sum with a null is unknown.
        """
        costs = self.transfers[column]
        values = []
        for producer, consumers, transfers in nets:
            part = costs.iloc[list(transfers)]
            cost = None if part.isna().any() or part.empty else int(part.sum())
            values.append(Value(producer=producer, consumers=consumers, cost=cost))
        return tuple(values)


def text_or_none(value: object) -> str | None:
    """Return a value of a text column, None for null."""
    return value if isinstance(value, str) else None
