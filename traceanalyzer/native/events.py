"""Wrappers for the functions in `events.c`, which loop over events."""

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.native.library import NativeFunction


class Nested(NamedTuple):
    """Nested events, grouped by line of the trace."""

    order: NDArray[np.int64]  #: line by line, by start, an event before those that it encloses
    line_begin: NDArray[np.int64]  #: first entry of each line in `order`, and the end of the last
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]


class Segments(NamedTuple):
    """Non-overlapping segments of each line."""

    begin: NDArray[np.int64]  #: first segment of each line, and the end of the last
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    event: NDArray[np.int64]  #: the innermost event of each segment


# Sequences of ops: the op of each event or record, and where each sequence begins and ends.
_Sequences: TypeAlias = tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]

_innermost = NativeFunction("innermost", "int64 int64 int64 int64 bool int64= int64=")
_sum_by = NativeFunction("sum_by", "int64 int64 int64=")
_flatten = NativeFunction(
    "flatten", "int64 int64 int64 int64 int8 int64= int64= int64= int64= int64="
)
_begun_by_call = NativeFunction(
    "begun_by_call", "int32 int64 int64 int64 int32 int64 int64 int64 int64="
)
_align = NativeFunction(
    "align", "int32 int64 int64 int32 int32 int64 int64 bool number int32= int32= int64="
)


def innermost(nested: Nested, is_container: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the innermost container event that encloses each event, or -1."""
    found = np.full(len(is_container), -1, np.int64)
    _innermost(*nested, is_container, np.empty(len(nested.order), np.int64), found)
    return found


def sum_by(codes: NDArray[np.int64], values: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Sum `values` by code, modulo 2^64. Codes must be below `size`. Negative codes are skipped."""
    sums = np.zeros(size, np.int64)
    _sum_by(codes, values, sums)
    return sums


def flatten(nested: Nested, label: NDArray[np.int8]) -> Segments:
    """Flatten nested events into segments, skipping events with a negative label."""
    room = 2 * int(np.count_nonzero(label[nested.order] >= 0))
    begin = np.empty(len(nested.line_begin), np.int64)
    start_ps, end_ps, event = (np.empty(room, np.int64) for _ in range(3))
    stack = np.empty(len(nested.order), np.int64)
    n = _flatten(*nested, label, stack, begin, start_ps, end_ps, event)
    return Segments(begin, start_ps[:n], end_ps[:n], event[:n])


def begun_by_call(
    turns: tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    links: tuple[NDArray[np.int32], NDArray[np.int64]],
    calls: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> NDArray[np.int64]:
    """Return each executor event's trigger: the last event of the same call that ended before it.

    The trigger is -1 if there is none, if another executor event contains this one, or if `links`
    (threads and times) already gives it. `turns` are the threads, starts, ends, and calls of the
    executor events, by thread and time. `calls` has the call and the end of each event.
    """
    found = np.empty(len(turns[0]), np.int64)
    _begun_by_call(*turns, *links, *calls, found)
    return found


def align(
    events: _Sequences,
    records: _Sequences,
    signature: NDArray[np.int32],
    is_open: NDArray[np.bool_],
    most_pairs: int,
) -> NDArray[np.int64]:
    """Return the index of each event's record, or -1 if it is uncertain.

    `signature` has the signature of each record. `is_open` marks record sequences whose end is
    unknown. Sequences with more than `most_pairs` pairs of events and records are skipped.
    """
    op, *bounds = records
    found = np.full(len(events[0]), -1, np.int64)
    n, m = (np.maximum(end - begin, 0) for _, begin, end in (events, records))
    room = int(((n + 1) * (m + 1))[n * m <= most_pairs].max(initial=0))
    before, after = np.empty(room, np.int32), np.empty(room, np.int32)
    _align(*events, op, signature, *bounds, is_open, most_pairs, before, after, found)
    return found
