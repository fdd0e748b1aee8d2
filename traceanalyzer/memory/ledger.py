"""The ledger of one allocator: how much was in use after each record, and by which blocks.

A freed block is the one last allocated at its address. Of blocks allocated before the first record
only the size is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray


# More than any machine has: larger numbers are invalid. Half a million of these add up exactly.
_MOST_BYTES: Final = 2**44


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column of sizes."""

    values: NDArray[np.int64]  #: bytes, 0 where unknown
    known: NDArray[np.bool_]

    def take(self, rows: NDArray[np.int64]) -> Numbers:
        """Return the rows at these indices, or where a mask is true."""
        return Numbers(self.values[rows], self.known[rows])


def numbers(table: pd.DataFrame, name: str) -> Numbers:
    """Return a column of the allocation table as sizes; impossible sizes are unknown."""
    values = table[name].astype("Int64").fillna(-1).to_numpy(np.int64)
    known = (values >= 0) & (values <= _MOST_BYTES)
    return Numbers(np.where(known, values, 0), known)


@dataclass(frozen=True, eq=False, kw_only=True)
class Ledger:
    """One allocator's records in order of time; one entry per record in each array, in bytes."""

    row: NDArray[np.int64]  #: in the allocation table
    at_ps: NDArray[np.int64]
    is_allocation: NDArray[np.bool_]  #: else a deallocation
    size: NDArray[np.int64]  #: of the block
    in_use: NDArray[np.int64]  #: after the record, reserved bytes included
    reserved: NDArray[np.int64]  #: kept back by the allocator
    #: Index of the record that ends the block's life: its deallocation or, if that record is lost,
    #: the next allocation at its address. The number of records if the block outlives them; -1 for
    #: a deallocation.
    end: NDArray[np.int64]
    before: NDArray[np.int64]  #: in use by blocks allocated before the first record
    live: NDArray[np.int64]  #: in use by blocks that a record allocated
    at_first: int  #: in use before the first record

    def __len__(self) -> int:
        return len(self.row)

    def unaccounted(self, index: int) -> int:
        """Return the bytes that do not add up after a record.

        Positive if records of allocations are lost, negative if those of deallocations are.
        """
        known = self.reserved[index] + self.before[index] + self.live[index]
        return int(self.in_use[index] - known)

    def live_at(self, index: int) -> NDArray[np.int64]:
        """Return the records whose blocks are live after record `index`; none for -1."""
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
    """Return the ledger of one allocator of one host; arguments are columns in order of time.

    Args:
        allocated: Bytes in use after each record, without the reserved ones.
        sizes: Bytes of each block; TPUs do not record the size of a freed block.
    """
    follows, precedes = _same_address(address)
    size = _known_sizes(sizes, allocated, np.where(is_allocation, -1, precedes), is_allocation)
    taken = np.where(is_allocation, size, 0)
    at_first = int(allocated[0] - (2 * taken[0] - size[0])) if len(row) else 0
    # A block freed without having been allocated is from before the first record.
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
    """Return each record's next and previous record at its address; their number, -1 for none."""
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
    """Return the bytes of each block: recorded, as allocated, or by the change in use."""
    if sizes.known.all():
        return sizes.values
    size = np.where(sizes.known, sizes.values, np.abs(np.diff(allocated, prepend=allocated[:1])))
    closing = np.flatnonzero(~sizes.known & (precedes >= 0))
    closing = closing[is_allocation[precedes[closing]]]
    size[closing] = size[precedes[closing]]
    return size
