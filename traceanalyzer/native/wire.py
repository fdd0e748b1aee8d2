"""Reads files that contain an XSpace protobuf; see `wire.c`. `buffer` has the file's content."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.native.library import NativeFunction

# Kinds of a stat's value: field numbers of XStat. 0 means no value.
DOUBLE, UINT64, INT64, STRING, BYTES, REF = 2, 3, 4, 5, 6, 7

# Why `scan_space` stopped before the end.
OVERRUN = 1  # a length exceeds the file, which was cut off
UNREADABLE = 2  # not a protobuf encoding


class Space(NamedTuple):
    """The planes and strings at the top level of a file."""

    planes: NDArray[np.int64]  #: two rows: where each begins and ends
    string_field: NDArray[np.uint8]  #: field number of each string: 2 errors, 3 warnings, 4 hosts
    string_at: NDArray[np.int64]


class PlaneTables(NamedTuple):
    """Planes, lines, metadata, and stats. Two-dimensional arrays have one row per field."""

    plane: NDArray[np.int64]
    lines: NDArray[np.int64]
    event_metadata: NDArray[np.int64]
    stat_metadata: NDArray[np.int64]
    stat_id: NDArray[np.int64]
    stat_kind: NDArray[np.uint8]
    stat_value: NDArray[np.uint64]

    @classmethod
    def empty(
        cls, planes: int = 0, lines: int = 0, events: int = 0, names: int = 0, stats: int = 0
    ) -> PlaneTables:
        """Allocate columns of the given lengths."""
        return cls(
            np.empty((7, planes), np.int64),
            np.empty((5, lines), np.int64),
            np.empty((4, events), np.int64),
            np.empty((2, names), np.int64),
            np.empty(stats, np.int64),
            np.empty(stats, np.uint8),
            np.empty(stats, np.uint64),
        )


class LineColumns(NamedTuple):
    """The lines of a file and their events and stats, as columns."""

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    timestamp_ns: NDArray[np.int64]
    event_begin: NDArray[np.int64]
    stat_begin: NDArray[np.int64]
    metadata_id: NDArray[np.int64]  # or int32, as stat_id
    start_ps: NDArray[np.int64]
    duration_ps: NDArray[np.int64]
    first_stat: NDArray[np.int64]
    occurrences: NDArray[np.int64]
    stat_id: NDArray[np.int64]
    stat_kind: NDArray[np.uint8]
    stat_value: NDArray[np.uint64]


_scan_space = NativeFunction("scan_space", "uint8 int64= int64= uint8= int64= int64=")
_walk_planes = NativeFunction(
    "walk_planes", "uint8 int64 int64= int64= int64= int64= int64= int64= uint8= uint64= int64="
)
_scan_lines = NativeFunction("scan_lines", "uint8 number number int64 int64= int64= int64= int64=")
#: Decodes the events and stats of some lines. Arguments: the buffer, the first line, the end of the
#: lines, and the columns of `LineColumns`.
fill_lines = NativeFunction(
    "fill_lines",
    "uint8 number number int64 int64 int64 int64 int64"
    " ids= int64= int64= int64= int64= ids= uint8= uint64=",
)
#: Finds each owner's last stat with one of some ids. Arguments: the first and the end of each
#: owner's stats, the ids of all stats, the wanted ids (sorted), and each owner's row, which is left
#: unchanged for an owner without such a stat.
find_stat = NativeFunction("find_stat", "int64 int64 ids int64 int64=")
_string_bounds = NativeFunction("string_bounds", "uint8 int64 int64= int64=")
_intern_strings = NativeFunction(
    "intern_strings", "uint8 number int64 int32= int64= uint64= int32= int64="
)
_FIRST_TABLE: Final = 1 << 16  # more where there are more distinct strings, fewer for few strings


def scan_space(
    buffer: NDArray[np.uint8], planes: int = 0, strings: int = 0
) -> tuple[Space, list[int]]:
    """Read a file's top level into columns with room for so many planes and strings.

    Also return how many planes and strings there are, where reading stopped, and why.
    """
    bounds, found = np.empty((2, planes), np.int64), np.empty(4, np.int64)
    space = Space(bounds, np.empty(strings, np.uint8), np.empty(strings, np.int64))
    _scan_space(buffer, *space.planes, *space[1:], found)
    return space, found.tolist()


def walk_planes(
    buffer: NDArray[np.uint8], begin: NDArray[np.int64], end: NDArray[np.int64], tables: PlaneTables
) -> tuple[int, ...]:
    """Read each plane, except its events, until the first unreadable byte.

    Return the numbers of lines, event metadata, stat metadata, stats, unreadable bytes, and
    unreadable byte ranges.
    """
    found = np.empty(6, np.int64)
    _walk_planes(buffer, begin, end, *tables, found)
    return tuple(found.tolist())


def scan_lines(
    buffer: NDArray[np.uint8],
    part: range,
    bounds: tuple[NDArray[np.int64], NDArray[np.int64]],
    events: NDArray[np.int64],
    stats: NDArray[np.int64],
) -> tuple[int, ...]:
    """Count the events and stats of each line in `part`, and truncate damaged lines.

    Return the number of aggregated events, 1 if ids need more than 32 bits (otherwise 0), and the
    numbers of unreadable bytes and of unreadable byte ranges.
    """
    found = np.empty(4, np.int64)
    _scan_lines(buffer, part.start, part.stop, *bounds, events, stats, found)
    return tuple(found.tolist())


def string_bounds(
    buffer: NDArray[np.uint8], at: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the start and end of each position's string; both are equal for -1 (no string)."""
    begin, end = np.empty_like(at), np.empty_like(at)
    _string_bounds(buffer, at, begin, end)
    return begin, end


def intern_strings(
    buffer: NDArray[np.uint8], seed: int, at: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Number the distinct strings at some positions, in order of first appearance.

    Return each string's number and each distinct string's first position. A secret hash `seed`
    protects against files that are crafted to make all strings collide.
    """
    codes, first = np.empty(len(at), np.int32), np.empty(len(at), np.int64)
    hashes, done = np.empty(len(at), np.uint64), np.zeros(2, np.int64)
    size = 1 << min(2 * len(at) + 1, _FIRST_TABLE).bit_length()
    while done[0] < len(at):
        table = np.empty(size, np.int32)
        _intern_strings(buffer, seed, at, codes, first, hashes, table, done)
        size *= 4
    return codes, first[: done[1]]
