"""Operations on columns: of flags, numbers and dictionary-coded texts, and of events that nest."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from traceanalyzer.native import events
from traceanalyzer.native.events import sum_by
from traceanalyzer.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from traceanalyzer.trace.columns import Plane


def mask(flags: Iterable[bool]) -> NDArray[np.bool_]:
    """Return flags as an array."""
    return np.array(list(flags), np.bool_)


def named_like(plane: Plane, is_wanted: Callable[[str], object]) -> NDArray[np.int64]:
    """Return the events of a plane whose name fits, e.g. `pattern.fullmatch`."""
    wanted = mask(bool(is_wanted(name)) for name in plane.names)
    return np.flatnonzero(wanted[plane.name_of]) if wanted.any() else np.empty(0, np.int64)


def pick(values: NDArray[Any], index: NDArray[Any], missing: Any = -1) -> NDArray[Any]:  # noqa: ANN401
    """Return `values[index]`, or `missing` where the index is -1."""
    picked: NDArray[Any] = np.append(values, values.dtype.type(missing))[index]
    return picked


def place_of(keys: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.int64]:
    """Return the place of each wanted key among distinct ones that rise; -1 for none of them."""
    if not len(keys):
        return np.full(len(wanted), -1, np.int64)
    slot = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
    return np.where(keys[slot] == wanted, slot, -1)


def last_of(
    keys: NDArray[Any],
    values: NDArray[Any],
    wanted: NDArray[Any],
    missing: Any = -1,  # noqa: ANN401
) -> NDArray[Any]:
    """Return the last value with each wanted key, or `missing`; `keys` of values need not rise."""
    distinct, at = np.unique(keys[::-1], return_index=True)
    return pick(values[::-1][at], place_of(distinct, wanted), missing)


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


# --- events that nest: those of a line do not cross --------------------------------------------


def in_line_order(plane: Plane) -> NDArray[np.int64]:
    """Return the plane's events line by line, by start, an enclosing event before its content.

    Each line keeps the range of `Lines.event_begin`.
    """
    order = np.arange(len(plane), dtype=np.int64)
    bounds = plane.lines.event_begin
    for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        start, duration = plane.start_ps[begin:end], plane.duration_ps[begin:end]
        step = np.diff(start)
        if (step > 0).all() or (
            (step >= 0).all() and (duration[1:] < duration[:-1])[step == 0].all()
        ):
            continue  # as TensorFlow mostly writes them
        order[begin:end] = begin + np.lexsort((-duration, start))
    return order


def nested(plane: Plane, order: NDArray[np.int64]) -> events.Nested:
    """Return the plane's events for native code, `order` as from `in_line_order`."""
    return events.Nested(order, plane.lines.event_begin, plane.start_ps, plane.end_ps)


def innermost(
    plane: Plane, order: NDArray[np.int64], is_container: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return the innermost container around each event, -1 for none."""
    if not is_container.any():
        return np.full(len(plane), -1, np.int64)
    return events.innermost(nested(plane, order), is_container)


def by_line(plane: Plane, event: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return some events line by line, by start, an enclosing event before its content."""
    start, duration = plane.start_ps[event], plane.duration_ps[event]
    return event[np.lexsort((-duration, start, plane.line_of[event]))]


def is_outermost(plane: Plane, event: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which of some events no other of them encloses, given in the order of `by_line`."""
    line, start, end = plane.line_of[event], plane.start_ps[event], plane.end_ps[event]
    outer = np.ones(len(event), np.bool_)
    bounds = np.concatenate([[0], np.flatnonzero(np.diff(line)) + 1, [len(event)]])
    for begin, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        if stop - begin > 1:
            latest = np.maximum.accumulate(end[begin:stop])[:-1]
            outer[begin + 1 : stop] = start[begin + 1 : stop] >= latest
    return outer


def self_durations(duration_ps: NDArray[np.int64], parent: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return each event's duration without its children's; `parent` is -1 for none."""
    children = sum_by(parent, duration_ps, len(duration_ps))
    own: NDArray[np.int64] = np.maximum(duration_ps - children, 0)
    return own
