"""Dictionary-coded text columns: joined, filled and mapped value by value, not row by row."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from traceanalyzer.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray


def pick(values: NDArray[Any], index: NDArray[Any], missing: Any = -1) -> NDArray[Any]:  # noqa: ANN401
    """Return `values[index]`, or `missing` where the index is -1."""
    picked: NDArray[Any] = np.append(values, values.dtype.type(missing))[index]
    return picked


def matches(column: Strings, is_wanted: Callable[[str], object]) -> NDArray[np.bool_]:
    """Tell in which rows a column holds a wanted string; each distinct string is tested once."""
    return pick(
        np.array([bool(is_wanted(v)) for v in column.values], np.bool_), column.codes, missing=False
    )


def concatenate(columns: Sequence[Strings]) -> Strings:
    """Join columns end to end, over one set of distinct values."""
    numbers: dict[str, int] = {}
    codes = [np.empty(0, np.int32)]
    for column in columns:
        table = [numbers.setdefault(value, len(numbers)) for value in column.values]
        codes.append(pick(np.array(table, np.int32), column.codes))
    return Strings(np.concatenate(codes), tuple(numbers))


def filled(column: Strings, other: Strings) -> Strings:
    """Return `column`, with `other` where it has no string."""
    merged = concatenate([column, other])
    n = len(column)
    codes = np.where(merged.codes[:n] >= 0, merged.codes[:n], merged.codes[n:])
    return Strings(codes.astype(np.int32), merged.values)


def mapped(column: Strings, function: Callable[[str], str | None]) -> Strings:
    """Apply `function` to each distinct string; None leaves a gap."""
    numbers: dict[str, int] = {}
    table = [
        -1 if (value := function(text)) is None else numbers.setdefault(value, len(numbers))
        for text in column.values
    ]
    return Strings(pick(np.array(table, np.int32), column.codes), tuple(numbers))


def relabelled(
    column: Strings,
    call: NDArray[np.int64],
    code_of_call: Mapping[int, int],
    values: tuple[str, ...],
) -> Strings:
    """Return a column of functions with those of some calls replaced.

    Args:
        column: The column.
        call: The step id of the call of each entry.
        code_of_call: Index into `values` by step id, at least one.
        values: The strings of the column, and others after them.
    """
    calls = np.array(sorted(code_of_call), np.int64)
    codes = np.array([code_of_call[at] for at in calls.tolist()], np.int32)
    slot = np.searchsorted(calls, call).clip(max=len(calls) - 1)
    return Strings(np.where(calls[slot] == call, codes[slot], column.codes), values)


def constant(value: str, size: int) -> Strings:
    """Return the same string `size` times."""
    return Strings(np.zeros(size, np.int32), (value,))


def empty(size: int) -> Strings:
    """Return a column of gaps."""
    return Strings(np.full(size, -1, np.int32), ())


def categorical(column: Strings) -> pd.Categorical:
    """Return the column for a dataframe, with only the categories that occur."""
    used = np.flatnonzero(np.bincount(column.codes + 1, minlength=len(column.values) + 1)[1:])
    # Several codes can stand for equal texts; categories must be distinct.
    numbers: dict[str, int] = {}
    table = np.full(len(column.values), -1, np.int32)
    table[used] = [numbers.setdefault(column.values[c], len(numbers)) for c in used.tolist()]
    return pd.Categorical.from_codes(
        pick(table, column.codes), categories=pd.Index(list(numbers), dtype=object)
    )


def distinct_rows(columns: Sequence[NDArray[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of each row of some columns, and the distinct rows.

    Values are whole numbers from -1 up. Distinct rows come in the order of their first occurrence.
    """
    sizes = [int(column.max(initial=-1)) + 2 for column in columns]
    if prod(sizes) >= 2**63:  # more than one number can hold: sort the rows instead
        rows, first, codes = np.unique(
            np.column_stack(columns), axis=0, return_index=True, return_inverse=True
        )
        rank = np.argsort(np.argsort(first))
        return rank[codes.reshape(-1)], rows[np.argsort(first)].astype(np.int64)
    packed = np.zeros(len(columns[0]), np.int64)
    for column, size in zip(columns, sizes, strict=True):
        if size > 1:  # otherwise the column is a gap throughout
            packed = packed * size + (column + 1)
    codes, packed_rows = pd.factorize(packed)
    rest = np.asarray(packed_rows, np.int64).copy()
    rows = np.empty((len(rest), len(columns)), np.int64)
    for k in reversed(range(len(columns))):
        rows[:, k] = rest % sizes[k] - 1
        rest //= sizes[k]
    return codes, rows
