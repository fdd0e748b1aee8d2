"""The allocation table as arrays, each made once for all allocators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pandas as pd

from traceanalyzer.memory.ledger import ledger, numbers
from traceanalyzer.native.events import sum_by

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.memory.ledger import Ledger, Numbers


_SIZES: Final = (
    "requested_bytes",
    "allocation_bytes",
    "bytes_allocated",
    "bytes_reserved",
    "bytes_available",
    "peak_bytes_in_use",
)
HELD_BY: Final = ("op_id", "op_name", "data_type", "shape", "region_type")


class Texts(NamedTuple):
    """A column of texts: for each row the index of its text; the last of these is None."""

    codes: NDArray[np.int64]
    values: NDArray[np.object_]


@dataclass(frozen=True, eq=False, kw_only=True)
class Records:
    """The allocation table as arrays, one entry per row in each."""

    at_ps: NDArray[np.int64]
    is_allocation: NDArray[np.bool_]
    address: NDArray[np.int64]  #: of the block; 0 where unknown
    sizes: dict[str, Numbers]  #: the columns of sizes, by name
    fragmentation: NDArray[np.float64]  #: NaN where unknown
    texts: dict[str, Texts]  #: the columns of `HELD_BY`, by name
    is_whole: NDArray[np.bool_]  #: whether the record has the bytes in use and the block's address

    def book(self, rows: NDArray[np.int64]) -> Ledger:
        """Return the ledger of the records at these rows."""
        rows = rows[self.is_whole[rows]]
        return ledger(
            rows,
            self.at_ps[rows],
            is_allocation=self.is_allocation[rows],
            address=self.address[rows],
            allocated=self.sizes["bytes_allocated"].values[rows],
            reserved=self.sizes["bytes_reserved"].values[rows],
            sizes=self.sizes["allocation_bytes"].take(rows),
        )

    def groups(self, rows: NDArray[np.int64], size: NDArray[np.int64]) -> pd.DataFrame:
        """Group the blocks at these rows by op, dtype, shape and region.

        Returns:
            The columns of `HELD_BY`, None where unknown, `bytes` and `count`; the largest first.
        """
        code = np.zeros(len(rows), np.int64)
        for text in self.texts.values():
            # Two codes become one, which is again less than the number of rows.
            code = pd.factorize(code * len(text.values) + text.codes[rows])[0]
        first = rows[np.unique(code, return_index=True)[1]]
        total = sum_by(code, size, len(first))
        order = np.argsort(-total, kind="stable")
        count = np.bincount(code, minlength=len(first)).astype(np.int64)
        columns: dict[str, object] = {
            # As objects: pandas turns None into its own missing value otherwise.
            name: pd.Series(text.values[text.codes[first[order]]], dtype=object)
            for name, text in self.texts.items()
        }
        return pd.DataFrame(columns | {"bytes": total[order], "count": count[order]})


def _texts(column: pd.Series[str]) -> Texts:
    coded = column.astype("category").cat
    values = np.array([*coded.categories.astype(object), None], dtype=object)
    codes = coded.codes.to_numpy(np.int64)
    return Texts(np.where(codes < 0, len(values) - 1, codes), values)


def records_of(table: pd.DataFrame) -> Records:
    """Return a host's allocation table as arrays."""
    sizes = {name: numbers(table, name) for name in _SIZES}
    addresses = table["addr"].astype("Int64")
    return Records(
        at_ps=table["start_ps"].to_numpy(np.int64),
        is_allocation=table["is_allocation"].to_numpy(np.bool_),
        address=np.asarray(addresses.fillna(0), np.int64),
        sizes=sizes,
        fragmentation=np.asarray(table["fragmentation"].astype("float64")),
        texts={name: _texts(table[name]) for name in HELD_BY},
        is_whole=sizes["bytes_allocated"].known & addresses.notna().to_numpy(np.bool_),
    )
