"""The ledger of one allocator: the memory in use after each record, and its blocks.

A deallocation frees the block last allocated at its address.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

# Larger sizes are invalid. Half a million of these fit into int64.
_MOST_BYTES: Final = 2**44
UNKNOWN: Final = -1  # in a column of sizes
_SIZES: Final = (
    *("requested_bytes", "allocation_bytes", "bytes_allocated"),
    *("bytes_reserved", "bytes_available", "peak_bytes_in_use"),
)
HELD_BY: Final = ("op_id", "op_name", "data_type", "shape", "region_type")


def records_of(table: pd.DataFrame) -> pd.DataFrame:
    """Sort a host's allocation table by time, and set implausible sizes to `UNKNOWN`."""
    sizes = {
        name: table[name].astype("Int64").fillna(UNKNOWN).to_numpy(np.int64) for name in _SIZES
    }
    valid = {
        name: np.where((size >= 0) & (size <= _MOST_BYTES), size, UNKNOWN)
        for name, size in sizes.items()
    }
    records = table.assign(**valid).sort_values("start_ps", kind="stable")
    return records.astype(dict.fromkeys(HELD_BY, "category"))


@dataclass(frozen=True, eq=False, kw_only=True)
class Ledger:
    """One allocator's records by time. Arrays have one entry per record; sizes are in bytes."""

    records: pd.DataFrame  #: from `records_of`, without those that lack bytes in use or address
    at_ps: NDArray[np.int64]
    is_allocation: NDArray[np.bool_]  #: False for a deallocation
    size: NDArray[np.int64]  #: of the block
    in_use: NDArray[np.int64]  #: after the record, reserved bytes included
    reserved: NDArray[np.int64]  #: reserved by the allocator
    #: The record that ends the block's life: its deallocation or, if that is lost, the next
    #: allocation at its address. The number of records if there is none; -1 for a deallocation.
    end: NDArray[np.int64]
    before: NDArray[np.int64]  #: in use by blocks allocated before the first record
    live: NDArray[np.int64]  #: in use by blocks that a record allocated
    at_first: int  #: in use before the first record

    def __len__(self) -> int:
        return len(self.at_ps)

    def unaccounted(self, index: int) -> int:
        """Return the bytes in use that no record explains; negative if deallocations were lost."""
        known = self.reserved[index] + self.before[index] + self.live[index]
        return int(self.in_use[index] - known)

    def live_at(self, index: int) -> NDArray[np.int64]:
        """Return the records whose blocks are live after record `index`; none if it is -1."""
        upto = slice(0, index + 1)
        return np.flatnonzero(self.is_allocation[upto] & (self.end[upto] > index))

    def holders(self, blocks: NDArray[np.int64], sign: NDArray[np.int64] | int = 1) -> pd.DataFrame:
        """Sum the sizes of blocks, times `sign`, by the columns of `HELD_BY`, largest first."""
        chosen = self.records[list(HELD_BY)].iloc[blocks]
        chosen = chosen.assign(bytes=sign * self.size[blocks], count=sign)
        groups = chosen.groupby(list(HELD_BY), sort=False, observed=True, dropna=False)
        sums = groups.sum().reset_index()
        sums = sums.sort_values("bytes", ascending=False, kind="stable", ignore_index=True)
        texts = {name: sums[name].astype(object) for name in HELD_BY}
        return sums.assign(**{name: text.where(text.notna(), None) for name, text in texts.items()})


def ledger(records: pd.DataFrame) -> Ledger:
    """Return the ledger of one allocator of one host.

    A freed block without a recorded size (TPUs) gets the size of its allocation.
    """
    records = records[(records["bytes_allocated"] >= 0) & records["addr"].notna()]
    allocated, recorded, address = (
        records[name].to_numpy(np.int64) for name in ("bytes_allocated", "allocation_bytes", "addr")
    )
    is_allocation = records["is_allocation"].to_numpy(np.bool_)
    reserved = records["bytes_reserved"].to_numpy(np.int64).clip(0)
    n = len(records)
    order = np.argsort(address, kind="stable")
    same = np.flatnonzero(address[order[1:]] == address[order[:-1]])
    # The index of each record's next and previous record at its address; -1 for none.
    follows, precedes = np.full(n, n, np.int64), np.full(n, -1, np.int64)
    follows[order[same]] = order[same + 1]
    precedes[order[same + 1]] = order[same]
    # The bytes of each block: as recorded, as allocated, or from the change in use.
    change = np.abs(np.diff(allocated, prepend=allocated[:1]))
    size = np.where(recorded >= 0, recorded, change)
    closing = np.flatnonzero((recorded < 0) & ~is_allocation & (precedes >= 0))
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
        records=records,
        at_ps=records["start_ps"].to_numpy(np.int64),
        is_allocation=is_allocation,
        size=size,
        in_use=allocated + reserved,
        reserved=reserved,
        end=np.where(is_allocation, follows, -1),
        before=at_first - np.cumsum(older),
        live=np.cumsum(taken - gone[:-1]),
        at_first=at_first + (int(reserved[0]) if n else 0),
    )
