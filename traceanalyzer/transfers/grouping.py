"""Rows of a table, divided by what they have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray

__all__ = ["codes_of", "grouped"]


def codes_of(column: pd.Series[Any]) -> NDArray[np.int64]:
    """Return the codes of a column of text, -1 for null."""
    codes: NDArray[np.int64] = np.asarray(column.cat.codes, np.int64)
    return codes


def grouped(
    rows: NDArray[np.int64], columns: Sequence[NDArray[np.int64]]
) -> list[NDArray[np.int64]]:
    """Divide rows by their values in columns of codes.

    Args:
        rows: Rows, rising.
        columns: Codes for every row of the table, -1 or more.

    Returns:
        The rows of each combination that occurs, rising, in the order of the codes.
    """
    if not len(rows):
        return []
    number = np.zeros(len(rows), np.int64)
    for column in columns:
        # Numbered anew with each column: that a number holds any of them.
        codes = column[rows] + 1
        number = number * (int(codes.max()) + 1) + codes
        number = np.unique(number, return_inverse=True)[1].reshape(-1).astype(np.int64)
    order = np.argsort(number, kind="stable")
    return np.split(rows[order], np.flatnonzero(np.diff(number[order])) + 1)
