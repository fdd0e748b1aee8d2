"""The copies between host and device, by the ops on the host's side of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.transfers.cheapest_move import Value
from traceanalyzer.transfers.graph import op_ends
from traceanalyzer.transfers.grouping import codes_of, grouped

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd
    from numpy.typing import NDArray

__all__ = ["Crossing", "Crossings", "IslandOp", "text_or_none"]


@dataclass(frozen=True, kw_only=True)
class IslandOp:
    """An op in or about an island.

    Attributes:
        key: Its op id, or function and node where it left no row in the op table.
        op_id: Its op id, or None.
        name: Its name.
        type: Its type.
    """

    key: str
    op_id: str | None
    name: str
    type: str


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """The copies one way across a shore.

    Attributes:
        count: How many; None where they are not recorded, only what must be copied is known.
        bytes: Bytes of those whose size is known; None where none is.
        time_ps: Time of those whose time is known; likewise.
        exposed_ps: How long a device idled because of them, as far as it is known; likewise.
    """

    count: int | None
    bytes: int | None
    time_ps: int | None
    exposed_ps: int | None


class Crossings:
    """The copies of a host between host and device, by the ops on the host's side."""

    def __init__(self, copies: pd.DataFrame, ops: pd.DataFrame) -> None:
        """Take the rows of one host.

        Args:
            copies: Rows of the copy table.
            ops: Rows of the op table.
        """
        self.copies = copies
        self.ops = ops
        self.ends = op_ends(copies)
        direction = copies["direction"].astype(object).to_numpy()
        self.arriving: NDArray[np.int64] = np.flatnonzero(direction == "d2h")
        self.leaving: NDArray[np.int64] = np.flatnonzero(direction == "h2d")
        # Without a device's plane only the host's sends are known, and those of the ops on a device
        # leave none (op_kernel.cc: they are not `expensive`).
        self.is_measured = bool(copies["device"].notna().any())
        self.row_of = {str(op_id): row for row, op_id in enumerate(ops["op_id"])}
        self.is_member: NDArray[np.bool_] = (
            (ops["placement"] == "cpu") & (ops["role"] == Role.COMPUTE) & ~ops["is_eager"]
        ).to_numpy()

    def op(self, row: int) -> IslandOp:
        """Return the op of a row of the op table."""
        op_id, name, op_type = (str(self.ops[c].iloc[row]) for c in ("op_id", "name", "type"))
        return IslandOp(key=op_id, op_id=op_id, name=name, type=op_type)

    def function(self, row: int) -> str | None:
        """Return the function of a row of the op table, None where it is not known."""
        return text_or_none(self.ops["function"].iloc[row])

    def rows(self, copies: NDArray[np.int64], end: str) -> dict[int, list[int]]:
        """Return the copies of each row of the op table that is at that end of them."""
        found = {}
        column = self.copies[end]
        for part in grouped(copies, [codes_of(column)]):
            row = self.row_of.get(str(column.iloc[part[0]]))
            if row is not None:
                found[row] = part.tolist()
        return found

    def crossing(self, copies: Sequence[int]) -> Crossing:
        """Sum copies up."""
        part = self.copies.iloc[list(copies)]
        sums = [part[c].dropna() for c in ("bytes", "duration_ps", "exposed_ps")]
        size, took, exposed = (int(s.sum()) if len(s) else None for s in sums)
        return Crossing(count=len(part), bytes=size, time_ps=took, exposed_ps=exposed)

    def cost(self, copies: Sequence[int], column: str) -> int | None:
        """Return the sum over copies; None where one is not known."""
        part = self.copies[column].iloc[list(copies)]
        return None if part.isna().any() or part.empty else int(part.sum())

    def values(
        self, nets: Iterable[tuple[str, tuple[str, ...], Sequence[int]]], column: str
    ) -> tuple[Value, ...]:
        """Return what goes from op to op, weighed by a column.

        Args:
            nets: Who makes each value, who takes it, and the copies of it.
            column: `bytes` or `duration_ps`.
        """
        return tuple(
            Value(producer=producer, consumers=consumers, cost=self.cost(copies, column))
            for producer, consumers, copies in nets
        )


def text_or_none(value: object) -> str | None:
    """Return a value of a text column, which is anything but text where it is null."""
    return value if isinstance(value, str) else None
