"""Operations on columns of flags, numbers, and strings, and on nested events."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traceanalyzer.native import events
from traceanalyzer.native.events import sum_by
from traceanalyzer.trace.columns import Plane
from traceanalyzer.trace.strings import Strings

Flags = NDArray[np.bool_]
Codes = NDArray[np.int32]
Ints = NDArray[np.int64]
Test = Callable[[str], object]  # such as `pattern.fullmatch`


def mask(flags: Iterable[object]) -> Flags:
    """Return the truth values of objects as a Boolean array."""
    return np.fromiter(map(bool, flags), np.bool_)


def named_like(plane: Plane, is_wanted: Test) -> Ints:
    """Return the indices of events whose name passes a test. Each distinct name is tested once."""
    wanted = mask(map(is_wanted, plane.names))
    return np.flatnonzero(wanted[plane.name_of]) if wanted.any() else np.empty(0, np.int64)


def matches(column: Strings, is_wanted: Test) -> Flags:
    """Return a mask of the strings that pass a test. Each distinct string is tested once."""
    return pick(mask(map(is_wanted, column.values)), column.codes, missing=False)


def pick(values: NDArray[Any], index: NDArray[Any], missing: Any = -1) -> NDArray[Any]:  # noqa: ANN401
    """Return `values[index]`, or `missing` where the index is -1."""
    picked: NDArray[Any] = np.append(values, values.dtype.type(missing))[index]
    return picked


def flags_at(index: Ints, size: int) -> Flags:
    """Return an array of `size` flags that is True at the given indices. -1 is ignored."""
    flags = np.zeros(size, np.bool_)
    flags[index[index >= 0]] = True
    return flags


def place_of(keys: NDArray[Any], wanted: NDArray[Any]) -> Ints:
    """Return the index of each wanted key in the sorted, distinct `keys`, or -1 if missing."""
    if not len(keys):
        return np.full(len(wanted), -1, np.int64)
    slot = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
    return np.where(keys[slot] == wanted, slot, -1)


def last_of(
    keys: NDArray[Any], values: NDArray[Any], wanted: NDArray[Any], missing: int = -1
) -> NDArray[Any]:
    """Return the last value for each wanted key, or `missing`. `keys` need not be sorted."""
    distinct, at = np.unique(keys[::-1], return_index=True)
    return pick(values[::-1][at], place_of(distinct, wanted), missing)


def last_before(keys: Ints, at_ps: Ints, wanted: Ints, until_ps: Ints) -> Ints:
    """Return the index of the last entry for each wanted key at or before its `until_ps`, or -1."""
    both = np.concatenate([keys, wanted])
    is_wanted = np.arange(len(both)) >= len(keys)
    order = np.lexsort((is_wanted, np.concatenate([at_ps, until_ps]), both))
    last = np.maximum.accumulate(np.where(is_wanted[order], -1, np.arange(len(both))))
    fits = (last >= 0) & (both[order[last]] == both[order])
    found = np.empty(len(both), np.int64)
    found[order] = np.where(fits, order[last], -1)
    return found[len(keys) :]


def distinct_rows(columns: Sequence[NDArray[Any]]) -> tuple[Ints, Ints]:
    """Number the distinct rows of some columns. Return each row's number, and the distinct rows.

    Values must be integers of at least -1.
    """
    packed, room = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        size = int(column.max(initial=-1)) + 2
        if room * size >= 2**63:  # would overflow int64
            packed = pd.factorize(packed)[0].astype(np.int64)
            room = len(packed)
        packed = packed * size + (column + 1)
        room *= size
    codes, distinct = pd.factorize(packed)
    first = np.empty(len(distinct), np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return codes, np.column_stack([column[first] for column in columns]).astype(np.int64)


# --- dictionary-coded texts --------------------------------------------------------------------


def coded(codes: NDArray[Any], values: Sequence[str]) -> Strings:
    """Return a column of strings from indices into `values`; -1 means no string."""
    return Strings(codes.astype(np.int32), tuple(values))


def concatenate(columns: Sequence[Strings]) -> Strings:
    """Concatenate columns of strings."""
    numbers: dict[str, int] = {}
    codes = [np.empty(0, np.int32)]
    for column in columns:
        table = [numbers.setdefault(value, len(numbers)) for value in column.values]
        codes.append(pick(np.array(table, np.int32), column.codes))
    return Strings(np.concatenate(codes), tuple(numbers))


def filled(column: Strings, other: Strings) -> Strings:
    """Fill missing strings in `column` from `other`."""
    merged = concatenate([column, other])
    own, more = np.split(merged.codes, [len(column)])
    return Strings(np.where(own >= 0, own, more), merged.values)


def mapped(column: Strings, function: Callable[[str], str | None]) -> Strings:
    """Apply a function to each distinct string. A result of None means no string."""
    numbers: dict[str, int] = {}
    table = [
        -1 if (value := function(text)) is None else numbers.setdefault(value, len(numbers))
        for text in column.values
    ]
    return Strings(pick(np.array(table, np.int32), column.codes), tuple(numbers))


def categorical(column: Strings) -> pd.Categorical:
    """Convert a column to a pandas Categorical with only the categories that occur."""
    used = np.flatnonzero(np.bincount(column.codes + 1, minlength=1)[1:])
    # Several codes can have the same text; categories must be distinct.
    numbers: dict[str, int] = {}
    table = np.full(len(column.values), -1, np.int32)
    table[used] = [numbers.setdefault(column.values[c], len(numbers)) for c in used.tolist()]
    return pd.Categorical.from_codes(
        pick(table, column.codes), categories=pd.Index(list(numbers), dtype=object)
    )


# --- nested events: events of one line never partly overlap ------------------------------------


def in_line_order(plane: Plane) -> Ints:
    """Return the order of each line's events by start, with enclosing events first."""
    order = np.arange(len(plane), dtype=np.int64)
    bounds = plane.lines.event_begin
    for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        start, duration = plane.start_ps[begin:end], plane.duration_ps[begin:end]
        step = np.diff(start)
        if (step < 0).any() or (duration[1:] >= duration[:-1])[step == 0].any():
            # TensorFlow usually writes events in this order, so sorting is rarely needed.
            order[begin:end] = begin + np.lexsort((-duration, start))
    return order


def nested(plane: Plane, order: Ints) -> events.Nested:
    """Return a plane's events as native code expects them. `order` is from `in_line_order`."""
    return events.Nested(order, plane.lines.event_begin, plane.start_ps, plane.end_ps)


def innermost(plane: Plane, order: Ints, is_container: Flags) -> Ints:
    """Return the innermost container event that encloses each event, or -1."""
    if not is_container.any():
        return np.full(len(plane), -1, np.int64)
    return events.innermost(nested(plane, order), is_container)


def by_line(plane: Plane, event: Ints) -> Ints:
    """Sort events by line, then by start, with enclosing events before the events in them."""
    start, duration = plane.start_ps[event], plane.duration_ps[event]
    return event[np.lexsort((-duration, start, plane.line_of[event]))]


def is_outermost(plane: Plane, event: Ints) -> Flags:
    """Return a mask of the events that no other event encloses. `event` is from `by_line`."""
    line = plane.line_of[event]
    latest = pd.Series(plane.end_ps[event]).groupby(line).cummax()
    before = latest.groupby(line).shift(fill_value=np.iinfo(np.int64).min)
    return plane.start_ps[event] >= before.to_numpy()


def self_durations(duration_ps: Ints, parent: Ints) -> Ints:
    """Return each event's duration minus its children's. `parent` is -1 for outermost events."""
    own: Ints = np.maximum(duration_ps - sum_by(parent, duration_ps, len(duration_ps)), 0)
    return own


def inside_ps(events_start_ps: Ints, events_end_ps: Ints, start_ps: Ints, end_ps: Ints) -> Ints:
    """Return the time in each interval that events cover; the events may overlap."""
    order = np.argsort(events_start_ps, kind="stable")
    start, end = events_start_ps[order], events_end_ps[order]
    end = np.maximum.accumulate(end)
    start[1:] = np.maximum(start[1:], end[:-1])  # disjoint, some of them empty
    took = np.concatenate([[0], np.cumsum(end - start)])

    def until(at_ps: Ints) -> Ints:
        begun = np.searchsorted(start, at_ps)
        last_end = np.append(end, np.iinfo(np.int64).min // 2)[begun - 1]
        rest: Ints = took[begun] - np.maximum(last_end - at_ps, 0) * (begun > 0)
        return rest

    return until(end_ps) - until(start_ps)
