"""Decodes an XSpace (the content of an `.xplane.pb` file) into columns."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from traceanalyzer.errors import TraceFormatError, TraceTooLargeError
from traceanalyzer.trace import wire
from traceanalyzer.trace.columns import Damage, Lines, Metadata, Plane, Stats, Trace, text_at

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["decode"]

# A profile of a host with a thousand cores has some thousand lines. What is done once a plane or a
# line is done in Python, so a file far above that is refused rather than left to run for hours.
MAX_PLANES = 1 << 16
MAX_LINES = 1 << 20

_WORKERS = 2  # decoding is bound by memory: a third thread gains nothing
_ENTRY_BYTES = 64  # a line or a metadata entry, in columns
_EVENT_BYTES = 28  # metadata id, start, duration, first stat
_STAT_BYTES = 13  # metadata id, kind, value
_ERRORS, _WARNINGS, _HOSTNAMES = 2, 3, 4  # field numbers in XSpace


class _Space(NamedTuple):
    """The top level: where planes begin and end, and the strings."""

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    string_field: NDArray[np.uint8]
    string_at: NDArray[np.int64]
    lost: int


class _Structure(NamedTuple):
    """Planes, lines and metadata; the columns are those of `wire.walk_planes`."""

    plane: tuple[NDArray[np.int64], ...]
    lines: tuple[NDArray[np.int64], ...]
    event_metadata: tuple[NDArray[np.int64], ...]
    stat_metadata: tuple[NDArray[np.int64], ...]
    children: NDArray[np.int64]
    stats: tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.uint64]]
    lost: int
    places: int


class _Events(NamedTuple):
    """Events of all lines; `event` are metadata id, start, duration, first stat."""

    begin: NDArray[np.int64]
    event: tuple[NDArray[np.int64], ...]
    occurrences: NDArray[np.int64] | None
    stats: Stats
    lost: int
    places: int


def decode(buffer: NDArray[np.uint8], *, max_bytes: int | None = None) -> Trace:
    """Decode a serialised XSpace.

    Args:
        buffer: The file, uint8; kept, since strings are read from it on demand.
        max_bytes: Refuse what would need more memory than this; None for no limit.

    Returns:
        The trace; its `damage` says what of the file could not be read.

    Raises:
        TraceFormatError: It is no XSpace, or it was cut short.
        TraceTooLargeError: It needs more memory than `max_bytes`.
    """
    b = buffer.view()
    b.flags.writeable = False  # so that one compiled version serves files and arrays
    space = _scan_space(b)
    structure = _walk_planes(b, space, max_bytes)
    events = _decode_lines(b, structure, max_bytes)
    lost = space.lost + structure.lost + events.lost
    damage = Damage(
        bytes_lost=lost,
        places=int(space.lost > 0) + structure.places + events.places,
        events_kept=len(events.event[1]),
    )
    return Trace(
        planes=_planes(b, structure, events),
        errors=_strings(b, space, _ERRORS),
        warnings=_strings(b, space, _WARNINGS),
        hostnames=_strings(b, space, _HOSTNAMES),
        damage=damage if lost else None,
    )


def _scan_space(b: NDArray[np.uint8]) -> _Space:
    empty = np.empty(0, np.int64)
    n_planes, n_strings, stop, why = wire.scan_space(
        b, False, empty, empty, np.empty(0, np.uint8), empty
    )
    if why == wire.OVERRUN:
        msg = (
            f"the file is cut short: what begins at byte {stop} goes on past its end "
            f"({len(b)} bytes); copy it again, or record anew"
        )
        raise TraceFormatError(msg)
    if why == wire.UNREADABLE and not n_planes:
        msg = f"this is not an XSpace: byte {stop} begins no field; is it another kind of file?"
        raise TraceFormatError(msg)
    if n_planes > MAX_PLANES:
        msg = f"{n_planes} planes are no plausible profile (limit {MAX_PLANES}); record anew"
        raise TraceFormatError(msg)
    begin, end = np.empty(n_planes, np.int64), np.empty(n_planes, np.int64)
    field, at = np.empty(n_strings, np.uint8), np.empty(n_strings, np.int64)
    wire.scan_space(b[:stop], True, begin, end, field, at)
    return _Space(begin, end, field, at, len(b) - stop)


def _walk_planes(b: NDArray[np.uint8], space: _Space, max_bytes: int | None) -> _Structure:
    def arrays(sizes: tuple[int, ...], columns: tuple[int, ...]) -> list[tuple[NDArray, ...]]:
        return [
            tuple(np.empty(size, np.int64) for _ in range(count))
            for size, count in zip(sizes, columns, strict=True)
        ]

    def walk(fill: bool, *sizes: int) -> tuple[_Structure, tuple[int, ...]]:  # noqa: FBT001
        n_stats, n_children = sizes[4], sizes[5]
        plane, lines, events, names = arrays(sizes[:4], (7, 8, 6, 2))
        stats = (
            np.empty(n_stats, np.int64),
            np.empty(n_stats, np.uint8),
            np.empty(n_stats, np.uint64),
        )
        children = np.empty(n_children, np.int64)
        *counts, lost, places = wire.walk_planes(
            b, fill, space.begin, space.end, plane, lines, events, names, stats, children
        )
        return _Structure(
            plane, lines, events, names, children, stats, lost, places
        ), tuple(counts)

    n_planes = len(space.begin)
    counted, counts = walk(False, 0, 0, 0, 0, 0, 0)
    n_lines, n_events, n_names, _, _ = counts
    if n_lines > MAX_LINES:
        msg = f"{n_lines} lines are no plausible profile (limit {MAX_LINES}); record anew"
        raise TraceFormatError(msg)
    _check_size((n_lines + n_events + n_names) * _ENTRY_BYTES, max_bytes)
    filled, _ = walk(True, n_planes, *counts)
    return filled._replace(lost=counted.lost, places=counted.places)


def _decode_lines(
    b: NDArray[np.uint8], structure: _Structure, max_bytes: int | None
) -> _Events:
    begin, end, timestamp_ns = structure.lines[6], structure.lines[7], structure.lines[4]
    n_lines = len(begin)
    event_begin, stat_begin = np.empty(n_lines + 1, np.int64), np.empty(n_lines + 1, np.int64)
    stat_begin[0] = first_event_stat = len(structure.stats[0])
    aggregated, wide, lost, places = wire.scan_lines(b, begin, end, event_begin, stat_begin)
    n_events, n_stats = int(event_begin[-1]), int(stat_begin[-1])
    _check_size(n_events * _EVENT_BYTES + n_stats * _STAT_BYTES, max_bytes)

    # The ids of planes' and metadata's own stats share the column with those of events.
    own = structure.stats[0]
    wide = wide or (len(own) > 0 and bool((own != own.astype(np.int32)).any()))
    ids = np.int64 if wide else np.int32
    stats = (
        np.empty(n_stats, ids),
        np.empty(n_stats, np.uint8),
        np.empty(n_stats, np.uint64),
    )
    for column, first in zip(stats, structure.stats, strict=True):
        column[:first_event_stat] = first
    event = (
        np.empty(n_events, ids),
        np.empty(n_events, np.int64),
        np.empty(n_events, np.int64),
        np.empty(n_events + 1, np.int64),
    )
    event[3][n_events] = n_stats
    occurrences = np.empty(n_events if aggregated else 0, np.int64)

    def fill(first: int, last: int) -> None:
        wire.fill_lines(
            b, first, last, (begin, end, timestamp_ns),
            event_begin, stat_begin, event, occurrences, stats,
        )  # fmt: skip

    with ThreadPoolExecutor(_WORKERS) as pool:
        # Lines differ in length by orders of magnitude: cut where the bytes, not the lines, halve.
        sizes = np.concatenate([[0], np.cumsum(end - begin)])
        cuts = np.searchsorted(sizes, np.linspace(0, sizes[-1], 4 * _WORKERS + 1)[1:-1])
        bounds = [0, *cuts.tolist(), n_lines]
        list(pool.map(fill, bounds[:-1], bounds[1:]))
    return _Events(
        event_begin,
        event,
        occurrences if aggregated else None,
        Stats(id=stats[0], kind=stats[1], value=stats[2]),
        lost,
        places,
    )


def _planes(b: NDArray[np.uint8], structure: _Structure, events: _Events) -> tuple[Plane, ...]:
    plane_id, name_at, *firsts, own_first, own_count = structure.plane

    def bounds(first: NDArray[np.int64], total: int) -> list[tuple[int, int]]:
        cuts = [*first.tolist(), total]
        return list(zip(cuts[:-1], cuts[1:], strict=True))

    lines = bounds(firsts[0], len(structure.lines[0]))
    metadata = bounds(firsts[1], len(structure.event_metadata[0]))
    names = bounds(firsts[2], len(structure.stat_metadata[0]))
    metadata_id, start_ps, duration_ps, stat_begin = events.event
    planes = []
    for p in range(len(plane_id)):
        first, last = (int(events.begin[k]) for k in lines[p])
        own = range(int(own_first[p]), int(own_first[p] + own_count[p]))
        stat_metadata = slice(*names[p])
        planes.append(
            Plane(
                name=text_at(b, int(name_at[p])),
                id=int(plane_id[p]),
                lines=_lines(b, structure, events, *lines[p]),
                metadata_id=metadata_id[first:last],
                start_ps=start_ps[first:last],
                duration_ps=duration_ps[first:last],
                occurrences=None if events.occurrences is None else events.occurrences[first:last],
                stat_begin=stat_begin[first : last + 1],
                metadata=_metadata(structure, *metadata[p], own.start),
                stat_names={
                    key: text_at(b, at)
                    for key, at in zip(
                        structure.stat_metadata[0][stat_metadata].tolist(),
                        structure.stat_metadata[1][stat_metadata].tolist(),
                        strict=True,
                    )
                },
                stats=events.stats,
                own_stats=own,
                buffer=b,
            )
        )
    return tuple(planes)


def _lines(
    b: NDArray[np.uint8], structure: _Structure, events: _Events, first: int, last: int
) -> Lines:
    line_id, display_id, name, display_name, timestamp_ns, duration_ps, _, _ = (
        column[first:last] for column in structure.lines
    )
    begin = events.begin[first : last + 1]
    return Lines(
        id=line_id,
        display_id=display_id,
        name=tuple(text_at(b, at) for at in name.tolist()),
        display_name=tuple(text_at(b, at) for at in display_name.tolist()),
        timestamp_ns=timestamp_ns,
        duration_ps=duration_ps,
        event_begin=begin - begin[0],
    )


def _metadata(structure: _Structure, first: int, last: int, stat_end: int) -> Metadata:
    key, name, display_name, metadata, stat_begin, child_begin = structure.event_metadata
    whole = last == len(key)
    return Metadata(
        id=key[first:last],
        name_at=name[first:last],
        display_name_at=display_name[first:last],
        metadata_at=metadata[first:last],
        stat_begin=np.append(stat_begin[first:last], stat_end),
        child_begin=np.append(
            child_begin[first:last], len(structure.children) if whole else child_begin[last]
        ),
        child_id=structure.children,
    )


def _strings(b: NDArray[np.uint8], space: _Space, field: int) -> tuple[str, ...]:
    return tuple(text_at(b, at) for at in space.string_at[space.string_field == field].tolist())


def _check_size(needed_bytes: int, max_bytes: int | None) -> None:
    if max_bytes is not None and needed_bytes > max_bytes:
        msg = (
            f"its events would take {needed_bytes / 1e6:,.0f} MB of memory, more than the limit of "
            f"{max_bytes / 1e6:,.0f} MB; raise the limit, or record fewer steps"
        )
        raise TraceTooLargeError(msg)
