"""The book of one allocator: what it had in use after each record, and what of it is known.

A block that is given back is the one that was handed out at its address last. What was handed out
before the first record is known by its size alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray


# Beyond what any machine has: such a number is none. Half a million of them add up exactly.
_MOST_BYTES: Final = 2**44


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column of sizes.

    Attributes:
        values: Bytes, 0 where they are not told; int64.
        known: Where they are told; bool.
    """

    values: NDArray[np.int64]
    known: NDArray[np.bool_]

    def take(self, rows: NDArray[np.int64]) -> Numbers:
        """Return the rows at these indices, or where a mask is true."""
        return Numbers(self.values[rows], self.known[rows])


def numbers(table: pd.DataFrame, name: str) -> Numbers:
    """Return a column of the allocation table as sizes; what can be none is not told."""
    values = table[name].astype("Int64").fillna(-1).to_numpy(np.int64)
    known = (values >= 0) & (values <= _MOST_BYTES)
    return Numbers(np.where(known, values, 0), known)


@dataclass(frozen=True, eq=False, kw_only=True)
class Ledger:
    """One allocator's records in order of time; one entry a record in each array, int64.

    Attributes:
        row: Its row in the table.
        at_ps: When it was.
        is_allocation: Whether memory was taken; bool.
        size: Bytes of the block.
        in_use: Bytes in use with it, what is kept back included.
        reserved: Bytes of these that are kept back.
        end: Index of the record with which the block's life ends: where it was given back, or its
            address was handed out anew because the record of that is lost; the number of records
            where it outlives them, -1 where the record itself ends one.
        before: Bytes in use of what was allocated before the first record.
        live: Bytes in use of what was allocated by one of the records.
        at_first: Bytes in use before the first record.
    """

    row: NDArray[np.int64]
    at_ps: NDArray[np.int64]
    is_allocation: NDArray[np.bool_]
    size: NDArray[np.int64]
    in_use: NDArray[np.int64]
    reserved: NDArray[np.int64]
    end: NDArray[np.int64]
    before: NDArray[np.int64]
    live: NDArray[np.int64]
    at_first: int

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.row)

    def unaccounted(self, index: int) -> int:
        """Return what does not add up after a record.

        More than 0 where records of allocations are lost, less where those of deallocations are.
        """
        known = self.reserved[index] + self.before[index] + self.live[index]
        return int(self.in_use[index] - known)

    def held(self, index: int) -> NDArray[np.int64]:
        """Return the records whose blocks are live after the one at `index`; none for -1."""
        upto = slice(0, index + 1)
        return np.flatnonzero(self.is_allocation[upto] & (self.end[upto] > index))


def ledger(  # noqa: PLR0913 - the columns of a record
    row: NDArray[np.int64],
    at_ps: NDArray[np.int64],
    *,
    is_allocation: NDArray[np.bool_],
    address: NDArray[np.int64],
    allocated: NDArray[np.int64],
    reserved: NDArray[np.int64],
    sizes: Numbers,
) -> Ledger:
    """Keep the book of one allocator of one host.

    Args:
        row: Rows of the table, in order of time.
        at_ps: When each record was.
        is_allocation: Whether it took memory.
        address: The block's.
        allocated: Bytes in use after it, without those kept back.
        reserved: Bytes kept back.
        sizes: Bytes of the block; TPUs do not tell those of what is given back.
    """
    follows, precedes = _same_address(address)
    size = _known_sizes(sizes, allocated, np.where(is_allocation, -1, precedes), is_allocation)
    taken = np.where(is_allocation, size, 0)
    at_first = int(allocated[0] - (2 * taken[0] - size[0])) if len(row) else 0
    # What is given back without having been handed out is from before, the first time.
    older = np.where(~is_allocation & (precedes < 0), size, 0)
    gone = np.zeros(len(row) + 1, np.int64)
    # One record ends one block at most; the last entry stands for no record.
    gone[follows[is_allocation]] = size[is_allocation]
    return Ledger(
        row=row,
        at_ps=at_ps,
        is_allocation=is_allocation,
        size=size,
        in_use=allocated + reserved,
        reserved=reserved,
        end=np.where(is_allocation, follows, -1),
        before=at_first - np.cumsum(older),
        live=np.cumsum(taken - gone[:-1]),
        at_first=at_first + (int(reserved[0]) if len(row) else 0),
    )


def _same_address(address: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the next record of each one's address, their number for none, and the one before."""
    n = len(address)
    order = np.argsort(address, kind="stable")
    same = np.flatnonzero(address[order[1:]] == address[order[:-1]])
    follows, precedes = np.full(n, n, np.int64), np.full(n, -1, np.int64)
    follows[order[same]] = order[same + 1]
    precedes[order[same + 1]] = order[same]
    return follows, precedes


def _known_sizes(
    sizes: Numbers,
    allocated: NDArray[np.int64],
    precedes: NDArray[np.int64],
    is_allocation: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """Return the bytes of each block: as told, as when it was handed out, or by what it changed."""
    if sizes.known.all():
        return sizes.values
    size = np.where(sizes.known, sizes.values, np.abs(np.diff(allocated, prepend=allocated[:1])))
    closing = np.flatnonzero(~sizes.known & (precedes >= 0))
    closing = closing[is_allocation[precedes[closing]]]
    size[closing] = size[precedes[closing]]
    return size
