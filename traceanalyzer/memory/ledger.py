"""The ledger of one allocator: the memory in use after each record, and its blocks.

A deallocation frees the block last allocated at its address. For blocks allocated before the first
record, only the size is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from numpy.typing import NDArray


# More than any machine has: larger numbers are invalid. Half a million of these fit into int64.
_MOST_BYTES: Final = 2**44
UNKNOWN: Final = -1  # in a column of sizes
_SIZES: Final = (
    *("requested_bytes", "allocation_bytes", "bytes_allocated"),
    *("bytes_reserved", "bytes_available", "peak_bytes_in_use"),
)
HELD_BY: Final = ("op_id", "op_name", "data_type", "shape", "region_type")


@dataclass(frozen=True, eq=False, kw_only=True)
class Records:
    """The allocation table of a host as arrays, one entry per row in each."""

    at_ps: NDArray[np.int64]
    is_allocation: NDArray[np.bool_]
    address: NDArray[np.int64]  #: of the block; 0 where unknown
    sizes: dict[str, NDArray[np.int64]]  #: the columns of sizes, by name
    fragmentation: NDArray[np.float64]  #: NaN where unknown
    codes: pd.DataFrame  #: the columns of `HELD_BY`: the index of each row's text
    texts: dict[str, NDArray[np.object_]]  #: the texts of each column; the last, -1, is None
    is_whole: NDArray[np.bool_]  #: whether the record has the bytes in use and the block's address

    def ledger(self, rows: NDArray[np.int64]) -> Ledger:
        """Return the ledger of the records at these rows, given in order of time."""
        rows = rows[self.is_whole[rows]]
        return ledger(
            rows,
            self.at_ps[rows],
            is_allocation=self.is_allocation[rows],
            address=self.address[rows],
            allocated=self.sizes["bytes_allocated"][rows],
            reserved=self.sizes["bytes_reserved"][rows].clip(0),
            sizes=self.sizes["allocation_bytes"][rows],
        )

    def groups(
        self, rows: NDArray[np.int64], size: NDArray[np.int64], count: NDArray[np.int64]
    ) -> pd.DataFrame:
        """Add up the blocks at these rows by op, dtype, shape and region.

        Returns:
            The columns of `HELD_BY`, None where unknown, `bytes` and `count`; the largest first.
        """
        blocks = self.codes.iloc[rows].assign(bytes=size, count=count)
        sums = blocks.groupby(list(HELD_BY), sort=False).sum().reset_index()
        sums = sums.sort_values("bytes", ascending=False, kind="stable", ignore_index=True)
        # As objects: pandas turns None into its own missing value otherwise.
        texts = {
            name: pd.Series(self.texts[name][sums[name].to_numpy()], dtype=object)
            for name in HELD_BY
        }
        return sums.assign(**texts)


def records_of(table: pd.DataFrame) -> Records:
    """Return a host's allocation table as arrays."""
    coded = {name: table[name].astype("category").cat for name in HELD_BY}
    sizes = {name: _sizes(table[name]) for name in _SIZES}
    addresses = table["addr"].astype("Int64")
    return Records(
        at_ps=table["start_ps"].to_numpy(np.int64),
        is_allocation=table["is_allocation"].to_numpy(np.bool_),
        address=np.asarray(addresses.fillna(0), np.int64),
        sizes=sizes,
        fragmentation=np.asarray(table["fragmentation"].astype("float64")),
        codes=pd.DataFrame({name: column.codes.astype(np.int64) for name, column in coded.items()}),
        texts={
            name: np.array([*column.categories.astype(object), None], dtype=object)
            for name, column in coded.items()
        },
        is_whole=(sizes["bytes_allocated"] >= 0) & addresses.notna().to_numpy(np.bool_),
    )


def _sizes(column: pd.Series[int]) -> NDArray[np.int64]:
    """Return a column of the allocation table as sizes; impossible ones are unknown."""
    values = column.astype("Int64").fillna(UNKNOWN).to_numpy(np.int64)
    return np.where((values >= 0) & (values <= _MOST_BYTES), values, UNKNOWN)


@dataclass(frozen=True, eq=False, kw_only=True)
class Ledger:
    """One allocator's records in order of time; one entry per record in each array, in bytes."""

    row: NDArray[np.int64]  #: in the allocation table
    at_ps: NDArray[np.int64]
    is_allocation: NDArray[np.bool_]  #: False for a deallocation
    size: NDArray[np.int64]  #: of the block
    in_use: NDArray[np.int64]  #: after the record, reserved bytes included
    reserved: NDArray[np.int64]  #: reserved by the allocator
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

        Positive if allocation records are lost, negative if deallocation records are lost.
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
    sizes: NDArray[np.int64],
) -> Ledger:
    """Return the ledger of one allocator of one host; arguments are columns in order of time.

    Args:
        allocated: Bytes in use after each record, without the reserved ones.
        sizes: Bytes of each block; TPUs do not record the size of a freed block.
    """
    n = len(row)
    order = np.argsort(address, kind="stable")
    same = np.flatnonzero(address[order[1:]] == address[order[:-1]])
    # The index of each record's next and previous record at its address; -1 for none.
    follows, precedes = np.full(n, n, np.int64), np.full(n, -1, np.int64)
    follows[order[same]] = order[same + 1]
    precedes[order[same + 1]] = order[same]
    # The bytes of each block: as recorded, as allocated, or from the change in use.
    change = np.abs(np.diff(allocated, prepend=allocated[:1]))
    size = np.where(sizes >= 0, sizes, change)
    closing = np.flatnonzero((sizes < 0) & ~is_allocation & (precedes >= 0))
    closing = closing[is_allocation[precedes[closing]]]
    size[closing] = size[precedes[closing]]
    taken = np.where(is_allocation, size, 0)
    at_first = int(allocated[0] - (2 * taken[0] - size[0])) if n else 0
    # A block freed without having been allocated is from before the first record.
    older = np.where(~is_allocation & (precedes < 0), size, 0)
    gone = np.zeros(n + 1, np.int64)
    # A record ends at most one block; the last entry means no record.
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
        at_first=at_first + (int(reserved[0]) if n else 0),
    )
