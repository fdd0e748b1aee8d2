"""The protobuf encoding of an XSpace, walked by compiled code straight into columns.

The only module that knows the encoding. Field numbers are those of
`tsl/profiler/protobuf/xplane.proto`. The walk has five stages, each over the whole file, so that
every array is allocated once, at its final size:

1. `scan_space`: the top-level fields: where each plane begins and ends;
2. `walk_planes` counting: lines, metadata entries and their stats;
3. `walk_planes` filling: the same, written into columns;
4. `scan_lines`: events and stats in each line;
5. `fill_lines`: events and stats, written into columns; lines are independent, so threads share it.

The counting stages also check: where a message cannot be read, they move its end up to the last
field that could, so the filling stages meet sound bytes only. Nothing here raises; damage is
counted. A string is kept as the position of its length prefix, and read when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.trace._jit import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "BYTES",
    "DOUBLE",
    "INT64",
    "OVERRUN",
    "REF",
    "STRING",
    "UINT64",
    "UNREADABLE",
    "fill_lines",
    "find_stat",
    "intern_strings",
    "mark",
    "scan_lines",
    "scan_space",
    "string_at",
    "string_bounds",
    "walk_planes",
]

# Kinds of a stat's value: the field numbers of the oneof in XStat. 0 is a stat without a value.
DOUBLE, UINT64, INT64, STRING, BYTES, REF = 2, 3, 4, 5, 6, 7

# Why a walk of the top level stopped short.
OVERRUN = 1  # a length leads past the end of the file: it was cut
UNREADABLE = 2  # not an encoding at all

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_MAX_VARINT_SHIFT = 63


@jit
def _varint(b, i, end):
    """Read a varint at `i`: its value, and the position after it or -1."""
    if i < end and b[i] < 128:
        return np.uint64(b[i]), i + 1
    value = np.uint64(0)
    shift = 0
    while i < end and shift <= _MAX_VARINT_SHIFT:
        c = b[i]
        i += 1
        value |= np.uint64(c & 0x7F) << np.uint64(shift)
        if c < 128:
            return value, i
        shift += 7
    return np.uint64(0), -1


@jit
def _message(b, i, end):
    """Read a length at `i`: where the bytes it announces begin and end, or -1 twice."""
    n, i = _varint(b, i, end)
    if i < 0 or n > np.uint64(end - i):
        return -1, -1
    return i, i + np.int64(n)


@jit
def _tag(b, i, end):
    """Read a field's tag at `i`: field number, wire type, next position or -1."""
    tag, i = _varint(b, i, end)
    field = np.int64(tag >> np.uint64(3))
    # Field numbers end at 2**29 - 1; a number of zero or above is not protobuf.
    if i < 0 or field <= 0 or field >= 536870912:
        return 0, 0, -1
    return field, np.int64(tag & np.uint64(7)), i


@jit
def _skip(b, i, end, wire_type):
    """Step over a field's value: the position after it or -1. Groups (long dead) are refused."""
    if wire_type == _VARINT:
        _, i = _varint(b, i, end)
        return i
    if wire_type == _LENGTH:
        _, stop = _message(b, i, end)
        return stop
    if wire_type == _FIXED64:
        return i + 8 if i + 8 <= end else -1
    if wire_type == _FIXED32:
        return i + 4 if i + 4 <= end else -1
    return -1


@jit
def _fixed64(b, i):
    value = np.uint64(0)
    for k in range(8):
        value |= np.uint64(b[i + k]) << np.uint64(8 * k)
    return value


@jit
def _stat(b, i, end):
    """Read one XStat: metadata id, kind, value (raw bits, or a string's position), readable."""
    metadata_id = np.int64(0)
    kind = np.uint8(0)
    value = np.uint64(0)
    while i < end:
        field, wire_type, i = _tag(b, i, end)
        if i < 0:
            return metadata_id, kind, value, False
        at = i
        if wire_type == _VARINT:
            v, i = _varint(b, i, end)
            if field == 1:
                metadata_id = np.int64(v)
            elif field == UINT64 or field == INT64 or field == REF:
                kind = np.uint8(field)
                value = v
        else:
            i = _skip(b, i, end, wire_type)
            if i >= 0:
                if wire_type == _FIXED64 and field == DOUBLE:
                    kind = np.uint8(DOUBLE)
                    value = _fixed64(b, at)
                elif wire_type == _LENGTH and (field == STRING or field == BYTES):
                    kind = np.uint8(field)
                    value = np.uint64(at)
        if i < 0:
            return metadata_id, kind, value, False
    return metadata_id, kind, value, True


@jit
def scan_space(b, fill, plane_begin, plane_end, string_field, string_at):
    """Walk the top-level fields of an XSpace.

    Args:
        b: The file, uint8.
        fill: Whether to write; the first call counts only and may pass empty arrays.
        plane_begin: Where each plane's bytes begin, int64.
        plane_end: Where they end, int64.
        string_field: Field number (2 errors, 3 warnings, 4 hostnames) of each string, uint8.
        string_at: Position of each string, int64.

    Returns:
        Planes, strings, position where the walk stopped, and why it stopped (0: at the end).
    """
    i = 0
    end = len(b)
    planes = 0
    strings = 0
    while i < end:
        start = i
        field, wire_type, i = _tag(b, i, end)
        if i < 0:
            return planes, strings, start, UNREADABLE
        at = i
        if wire_type == _LENGTH:
            n, j = _varint(b, i, end)
            if j < 0:
                return planes, strings, start, OVERRUN if end - i < 10 else UNREADABLE
            if n > np.uint64(end - j):
                return planes, strings, start, OVERRUN
            i = j + np.int64(n)
            if field == 1:
                if fill:
                    plane_begin[planes] = j
                    plane_end[planes] = i
                planes += 1
            elif field <= 4:
                if fill:
                    string_field[strings] = field
                    string_at[strings] = at
                strings += 1
        else:
            i = _skip(b, i, end, wire_type)
            if i < 0:
                return planes, strings, start, UNREADABLE
    return planes, strings, end, 0


@jit
def _event_metadata(b, i, end, fill, row, stat, child, columns, stats, children):
    """Read one entry of XPlane.event_metadata: stats and children after it, readable.

    `columns` are id, name, display_name, metadata, stat_begin, child_begin.
    """
    key, name, display_name, metadata = np.int64(0), -1, -1, -1
    first_stat, first_child = stat, child
    while i < end:
        field, wire_type, i = _tag(b, i, end)
        if i < 0:
            return stat, child, False
        if field == 1 and wire_type == _VARINT:
            v, i = _varint(b, i, end)
            key = np.int64(v)
        elif field == 2 and wire_type == _LENGTH:
            i, stop = _message(b, i, end)
            if i < 0:
                return stat, child, False
            while i < stop:
                field, wire_type, i = _tag(b, i, stop)
                if i < 0:
                    return stat, child, False
                at = i
                if field == 5 and wire_type == _LENGTH:
                    begin, i = _message(b, i, stop)
                    if i < 0:
                        return stat, child, False
                    sid, kind, value, ok = _stat(b, begin, i)
                    if not ok:
                        return stat, child, False
                    if fill:
                        stats[0][stat] = sid
                        stats[1][stat] = kind
                        stats[2][stat] = value
                    stat += 1
                elif field == 6 and wire_type == _VARINT:
                    v, i = _varint(b, i, stop)
                    if fill and i >= 0:
                        children[child] = np.int64(v)
                    child += 1
                elif field == 6 and wire_type == _LENGTH:
                    i, packed_end = _message(b, i, stop)
                    while 0 <= i < packed_end:
                        v, i = _varint(b, i, packed_end)
                        if fill and i >= 0:
                            children[child] = np.int64(v)
                        child += 1
                else:
                    i = _skip(b, i, stop, wire_type)
                    if wire_type == _LENGTH:
                        if field == 2:
                            name = at
                        elif field == 3:
                            metadata = at
                        elif field == 4:
                            display_name = at
                if i < 0:
                    return stat, child, False
        else:
            i = _skip(b, i, end, wire_type)
        if i < 0:
            return stat, child, False
    if fill:
        columns[0][row] = key
        columns[1][row] = name
        columns[2][row] = display_name
        columns[3][row] = metadata
        columns[4][row] = first_stat
        columns[5][row] = first_child
    return stat, child, True


@jit
def _stat_metadata(b, i, end, fill, row, columns):
    """Read one entry of XPlane.stat_metadata into `columns` (id, name); whether readable."""
    key, name = np.int64(0), -1
    while i < end:
        field, wire_type, i = _tag(b, i, end)
        if i < 0:
            return False
        if field == 1 and wire_type == _VARINT:
            v, i = _varint(b, i, end)
            key = np.int64(v)
        elif field == 2 and wire_type == _LENGTH:
            i, stop = _message(b, i, end)
            while 0 <= i < stop:
                field, wire_type, i = _tag(b, i, stop)
                if i < 0:
                    return False
                at = i
                i = _skip(b, i, stop, wire_type)
                if field == 2 and wire_type == _LENGTH:
                    name = at
        else:
            i = _skip(b, i, end, wire_type)
        if i < 0:
            return False
    if fill:
        columns[0][row] = key
        columns[1][row] = name
    return True


@jit
def _line_header(b, i, end, row, columns):
    """Read what an XLine says of itself into `columns`; stops quietly at damage.

    `columns` are id, display_id, name, display_name, timestamp_ns, duration_ps, begin, end.
    """
    columns[0][row] = 0
    columns[1][row] = 0
    columns[2][row] = -1
    columns[3][row] = -1
    columns[4][row] = 0
    columns[5][row] = 0
    columns[6][row] = i
    columns[7][row] = end
    while i < end:
        field, wire_type, i = _tag(b, i, end)
        if i < 0:
            return
        at = i
        if wire_type == _VARINT:
            v, i = _varint(b, i, end)
            if i < 0:
                return
            value = np.int64(v)
            if field == 1:
                columns[0][row] = value
            elif field == 10:
                columns[1][row] = value
            elif field == 3:
                columns[4][row] = value
            elif field == 9:
                columns[5][row] = value
        else:
            i = _skip(b, i, end, wire_type)
            if i < 0:
                return
            if wire_type == _LENGTH and field == 2:
                columns[2][row] = at
            elif wire_type == _LENGTH and field == 11:
                columns[3][row] = at


@jit
def walk_planes(b, fill, begin, end, plane, lines, event_metadata, stat_metadata, stats, children):
    """Walk the fields of every plane, lines' insides left out.

    Args:
        b: The file, uint8.
        fill: Whether to write; the first call counts, checks, and shortens `end` at damage.
        begin: Where each plane begins, int64.
        end: Where it ends, int64; moved up to the damage where there is some.
        plane: Columns of the planes: id, name, first line, first event metadata, first stat
            metadata, first own stat, number of own stats.
        lines: Columns of the lines, see `_line_header`.
        event_metadata: Columns of the event metadata, see `_event_metadata`.
        stat_metadata: Columns of the stat metadata, see `_stat_metadata`.
        stats: Columns of the stats of planes and event metadata: id, kind, value.
        children: XEventMetadata.child_id.

    Returns:
        Counts: lines, event metadata, stat metadata, stats, children, bytes lost, places damaged.
    """
    n_lines, n_events, n_names, n_stats, n_children, lost, places = 0, 0, 0, 0, 0, 0, 0
    for p in range(len(begin)):
        i = begin[p]
        stop = end[p]
        plane_id, name = np.int64(0), -1
        first_line, first_event, first_name = n_lines, n_events, n_names
        own = 0
        damage = -1
        while i < stop:
            start = i
            field, wire_type, i = _tag(b, i, stop)
            if i < 0:
                damage = start
                break
            at = i
            if field == 1 and wire_type == _VARINT:
                v, i = _varint(b, i, stop)
                plane_id = np.int64(v)
            elif wire_type == _LENGTH and 2 <= field <= 6:
                inner, i = _message(b, i, stop)
                if i < 0:
                    damage = start
                    break
                if field == 2:
                    name = at
                elif field == 3:
                    if fill:
                        _line_header(b, inner, i, n_lines, lines)
                    n_lines += 1
                elif field == 4:
                    s, c, ok = _event_metadata(
                        b, inner, i, fill, n_events, n_stats, n_children,
                        event_metadata, stats, children,
                    )  # fmt: skip
                    if not ok:
                        damage = start
                        break
                    n_stats, n_children = s, c
                    n_events += 1
                elif field == 5:
                    if not _stat_metadata(b, inner, i, fill, n_names, stat_metadata):
                        damage = start
                        break
                    n_names += 1
                else:
                    _, _, _, ok = _stat(b, inner, i)
                    if not ok:
                        damage = start
                        break
                    own += 1
            else:
                i = _skip(b, i, stop, wire_type)
            if i < 0:
                damage = start
                break
        if damage >= 0:
            lost += stop - damage
            places += 1
            stop = damage
            end[p] = damage
        # The plane's own stats, sound by now, may stand anywhere between its metadata, whose stats
        # share the columns: a second, shallow walk writes them in one piece.
        own_first = n_stats
        n_stats += own
        i = begin[p] if fill and own > 0 else stop
        row = own_first
        while i < stop:
            field, wire_type, i = _tag(b, i, stop)
            if field == 6 and wire_type == _LENGTH:
                inner, i = _message(b, i, stop)
                sid, kind, value, _ = _stat(b, inner, i)
                stats[0][row] = sid
                stats[1][row] = kind
                stats[2][row] = value
                row += 1
            else:
                i = _skip(b, i, stop, wire_type)
        if fill:
            plane[0][p] = plane_id
            plane[1][p] = name
            plane[2][p] = first_line
            plane[3][p] = first_event
            plane[4][p] = first_name
            plane[5][p] = own_first
            plane[6][p] = own
    return n_lines, n_events, n_names, n_stats, n_children, lost, places


@jit
def scan_lines(b, first, last, begin, end, events, stats):
    """Count the events and stats of some lines, and shorten a line at its first damage.

    Args:
        b: The file, uint8.
        first: First line.
        last: Line to stop before.
        begin: Where each line begins, int64.
        end: Where it ends, int64; moved up to the damage where there is some.
        events: Filled with the number of events of each line, int64.
        stats: Likewise for stats.

    Returns:
        Aggregated events (with `num_occurrences`), whether any metadata id exceeds 32 bits,
        bytes lost, places damaged.
    """
    aggregated, lost, places = 0, 0, 0
    wide = False
    for line in range(first, last):
        i, stop = begin[line], end[line]
        n_events, n_stats = 0, 0
        while i < stop:
            start = i
            field, wire_type, i = _tag(b, i, stop)
            ok = i >= 0
            if ok and field == 4 and wire_type == _LENGTH:
                i, event_end = _message(b, i, stop)
                ok = i >= 0
                here = 0
                counted = 0
                while ok and i < event_end:
                    field, wire_type, i = _tag(b, i, event_end)
                    ok = i >= 0
                    if not ok:
                        break
                    if wire_type == _VARINT:
                        v, i = _varint(b, i, event_end)
                        if field == 1:
                            w = np.int64(v)
                            if w > 2147483647 or w < -2147483648:
                                wide = True
                        elif field == 5:
                            counted = 1
                    elif field == 4 and wire_type == _LENGTH:
                        inner, i = _message(b, i, event_end)
                        if i >= 0:
                            w, _, _, ok = _stat(b, inner, i)
                            if w > 2147483647 or w < -2147483648:
                                wide = True
                            here += 1
                    else:
                        i = _skip(b, i, event_end, wire_type)
                    ok = ok and i >= 0
                if ok:
                    n_events += 1
                    n_stats += here
                    aggregated += counted
            elif ok:
                i = _skip(b, i, stop, wire_type)
                ok = i >= 0
            if not ok:
                lost += stop - start
                places += 1
                end[line] = start
                break
        events[line] = n_events
        stats[line] = n_stats
    return aggregated, wide, lost, places


@jit
def fill_lines(b, first, last, lines, event_begin, stat_begin, event, occurrences, stats):
    """Write the events and stats of the lines from `first` up to `last`.

    Args:
        b: The file, uint8.
        first: First line.
        last: Line to stop before.
        lines: begin, end, timestamp_ns of the lines, int64.
        event_begin: Index of each line's first event, int64.
        stat_begin: Index of each line's first stat, int64.
        event: Columns of the events: metadata id, start_ps, duration_ps, first stat.
        occurrences: `num_occurrences` of each event (1 for a plain one), or empty where no event
            of the file is aggregated; int64.
        stats: Columns of the stats: id, kind, value.
    """
    for line in range(first, last):
        i, stop = lines[0][line], lines[1][line]
        # The product and the addition below may wrap; `clock.on_one_clock` undoes that.
        line_ps = lines[2][line] * 1000
        e, s = event_begin[line], stat_begin[line]
        while i < stop:
            field, wire_type, i = _tag(b, i, stop)
            if field != 4 or wire_type != _LENGTH:
                i = _skip(b, i, stop, wire_type)
                continue
            i, event_end = _message(b, i, stop)
            metadata_id, offset_ps, duration_ps, count = (
                np.int64(0), np.int64(0), np.int64(0), np.int64(1),
            )  # fmt: skip
            event[3][e] = s
            while i < event_end:
                field, wire_type, i = _tag(b, i, event_end)
                if wire_type == _VARINT:
                    v, i = _varint(b, i, event_end)
                    if field == 1:
                        metadata_id = np.int64(v)
                    elif field == 2:
                        offset_ps, count = np.int64(v), np.int64(1)
                    elif field == 5:
                        offset_ps, count = np.int64(0), np.int64(v)
                    elif field == 3:
                        duration_ps = np.int64(v)
                elif field == 4 and wire_type == _LENGTH:
                    inner, i = _message(b, i, event_end)
                    sid, kind, value, _ = _stat(b, inner, i)
                    stats[0][s] = sid
                    stats[1][s] = kind
                    stats[2][s] = value
                    s += 1
                else:
                    i = _skip(b, i, event_end, wire_type)
            event[0][e] = metadata_id
            event[1][e] = line_ps + offset_ps
            event[2][e] = duration_ps
            if len(occurrences) > 0:
                occurrences[e] = count
            e += 1


@jit
def find_stat(stat_begin, stat_end, stat_id, wanted, rows):
    """Find, for each owner of stats, the last stat with one of the ids `wanted`.

    Args:
        stat_begin: First stat of each owner, int64.
        stat_end: Stat to stop before, for each owner, int64.
        stat_id: Ids of all stats.
        wanted: The ids looked for, ascending and at least one: most names have one, but a file
            may give a name to a million.
        rows: Filled with the stat's row, or left as it is; int64.
    """
    only = wanted[0]
    several = len(wanted) > 1
    for k in range(len(stat_begin)):
        for s in range(stat_begin[k], stat_end[k]):
            here = stat_id[s]
            if several:
                slot = np.searchsorted(wanted, here)
                if slot < len(wanted) and wanted[slot] == here:
                    rows[k] = s
            elif here == only:
                rows[k] = s


@jit
def mark(ids, is_used):
    """Set `is_used` at each of some ids, all of which lie within it."""
    for k in range(len(ids)):
        is_used[ids[k]] = True


@jit
def intern_strings(b, seed, at, codes, first):
    """Number the distinct strings among those at positions `at`, comparing bytes.

    Args:
        b: The file, uint8.
        seed: Where hashes start, uint64; a secret one keeps a file from bearing strings that all
            collide.
        at: Positions of the strings, int64.
        codes: Filled with the number of each string, in order of first appearance; int32.
        first: Filled with the position of each distinct string; as long as `at`.

    Returns:
        How many distinct strings there are.
    """
    size = 16
    while size < min(2 * len(at), 65536):  # more when there are more distinct ones
        size *= 2
    table = np.full(size, -1, np.int32)
    hashes = np.empty(16, np.uint64)
    end = len(b)
    n = 0
    for k in range(len(at)):
        begin, stop = _message(b, at[k], end)
        h = seed
        for i in range(begin, stop):
            h = (h ^ np.uint64(b[i])) * np.uint64(1099511628211)
        h ^= h >> np.uint64(29)
        slot = np.int64(h & np.uint64(size - 1))
        while table[slot] >= 0:
            if hashes[table[slot]] == h:
                other, other_stop = _message(b, first[table[slot]], end)
                same = other_stop - other == stop - begin
                if same:
                    for i in range(stop - begin):
                        if b[other + i] != b[begin + i]:
                            same = False
                            break
                if same:
                    break
            slot = (slot + 1) & (size - 1)
        if table[slot] < 0:
            if n == len(hashes):
                grown = np.empty(2 * n, np.uint64)
                grown[:n] = hashes
                hashes = grown
            hashes[n] = h
            first[n] = at[k]
            table[slot] = n
            codes[k] = n
            n += 1
            if 2 * n > size:
                size *= 4
                table = np.full(size, -1, np.int32)
                for m in range(n):
                    slot = np.int64(hashes[m] & np.uint64(size - 1))
                    while table[slot] >= 0:
                        slot = (slot + 1) & (size - 1)
                    table[slot] = m
        else:
            codes[k] = table[slot]
    return n


@jit
def string_bounds(b, at, begin, end):
    """Find where the strings at positions `at` begin and end.

    Args:
        b: The file, uint8.
        at: Positions, -1 for no string; int64.
        begin: Filled with where each begins, int64; 0 for no string.
        end: Likewise where each ends.
    """
    for k in range(len(at)):
        begin[k], end[k] = 0, 0
        if at[k] >= 0:
            begin[k], end[k] = _message(b, at[k], len(b))


def string_at(buffer: NDArray[np.uint8], position: int) -> bytes:
    """Return the bytes of the length-prefixed string at `position`."""
    length = shift = 0
    while True:
        byte = int(buffer[position])
        position += 1
        length |= (byte & 0x7F) << shift
        if byte < 128:
            return buffer[position : position + length].tobytes()
        shift += 7
