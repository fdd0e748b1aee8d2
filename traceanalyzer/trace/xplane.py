"""Decodes an XSpace (the content of an `.xplane.pb` file) into columns."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from traceanalyzer.errors import TraceFormatError
from traceanalyzer.trace import wire
from traceanalyzer.trace.columns import (
    Damage,
    Lines,
    Metadata,
    Plane,
    Stats,
    Trace,
    text_at,
    texts_at,
)
from traceanalyzer.trace.memory_need import refuse_beyond

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["decode"]

# A profile of a host with a thousand cores has some thousand lines, and some dozen planes. What is
# done once a plane or a line is done in Python, so a file far above that is refused rather than
# left to run for hours.
MAX_PLANES = 1 << 14
MAX_LINES = 1 << 20
MAX_STRINGS = 1 << 16  # errors, warnings and hostnames

# Bytes that one of each takes, in columns and as Python objects.
_PLANE_BYTES = 4096
_LINE_BYTES = 256
_METADATA_BYTES = 64
_STAT_NAME_BYTES = 256
_STRING_BYTES = 128

_COUNT, _FILL = False, True  # what a walk does
_WORKERS = 2  # decoding is bound by memory: a third thread gains nothing
_WORTH_THREADS = 1 << 20  # bytes; fewer are read sooner than threads are started
_ERRORS, _WARNINGS, _HOSTNAMES = 2, 3, 4  # field numbers in XSpace
_Found = TypeVar("_Found")


class _Space(NamedTuple):
    """The top level: where planes begin and end, and the strings."""

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    string_field: NDArray[np.uint8]
    string_at: NDArray[np.int64]


class _Structure(NamedTuple):
    """Planes, lines and metadata: the columns of `wire.walk_planes`, in its order."""

    plane: tuple[NDArray[np.int64], ...]
    lines: tuple[NDArray[np.int64], ...]
    event_metadata: tuple[NDArray[np.int64], ...]
    stat_metadata: tuple[NDArray[np.int64], ...]
    stats: tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.uint64]]
    children: NDArray[np.int64]


class _Events(NamedTuple):
    """Events of all lines; `event` are metadata id, start, duration, first stat."""

    begin: NDArray[np.int64]
    event: tuple[NDArray[np.int64], ...]
    occurrences: NDArray[np.int64] | None
    stats: Stats


@dataclass
class _Tally:
    """What reading a file takes, and what of it could not be read."""

    max_bytes: int | None
    needed_bytes: int = 0
    bytes_lost: int = 0
    places: int = 0

    def need(self, needed_bytes: int) -> None:
        """Take so much more memory, or refuse."""
        self.needed_bytes += needed_bytes
        refuse_beyond(self.max_bytes, self.needed_bytes)

    def lose(self, bytes_lost: int, places: int) -> None:
        """Give up some of the file."""
        self.bytes_lost += bytes_lost
        self.places += places


def decode(buffer: NDArray[np.uint8], *, max_bytes: int | None = None) -> Trace:
    """Decode a serialised XSpace.

    Args:
        buffer: The file, uint8; kept, since strings are read from it on demand. It must not change
            meanwhile: what a first walk found sound, a second does not check again.
        max_bytes: Refuse a trace whose report would need more memory; None for no limit.

    Returns:
        The trace; its `damage` says what of the file could not be read.

    Raises:
        TraceFormatError: It is no XSpace, or it was cut short.
        TraceTooLargeError: It needs more memory than `max_bytes`.
    """
    b = buffer.view()
    b.flags.writeable = False  # so that one compiled version serves files and arrays
    tally = _Tally(max_bytes)
    space = _scan_space(b, tally)
    structure = _walk_planes(b, space, tally)
    events = _decode_lines(b, structure, tally)
    damage = Damage(
        bytes_lost=tally.bytes_lost, places=tally.places, events_kept=int(events.begin[-1])
    )
    return Trace(
        planes=_planes(b, structure, events),
        errors=_strings(b, space, _ERRORS),
        warnings=_strings(b, space, _WARNINGS),
        hostnames=_strings(b, space, _HOSTNAMES),
        damage=damage if damage.places else None,
    )


def _scan_space(b: NDArray[np.uint8], tally: _Tally) -> _Space:
    none = np.empty(0, np.int64)
    n_planes, n_strings, stop, why = wire.scan_space(
        b, _COUNT, none, none, np.empty(0, np.uint8), none
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
    if len(b) and not n_planes and not n_strings:
        msg = "this is not an XSpace: it has none of its fields; is it another kind of file?"
        raise TraceFormatError(msg)
    _check_count(n_planes, MAX_PLANES, "planes")
    _check_count(n_strings, MAX_STRINGS, "errors, warnings and hostnames")
    tally.need(n_planes * _PLANE_BYTES + n_strings * _STRING_BYTES)
    if stop < len(b):
        tally.lose(len(b) - stop, 1)
    begin, end = np.empty(n_planes, np.int64), np.empty(n_planes, np.int64)
    field, at = np.empty(n_strings, np.uint8), np.empty(n_strings, np.int64)
    wire.scan_space(b[:stop], _FILL, begin, end, field, at)
    return _Space(begin, end, field, at)


def _walk_planes(b: NDArray[np.uint8], space: _Space, tally: _Tally) -> _Structure:
    *counts, lost, places = wire.walk_planes(b, _COUNT, space.begin, space.end, *_structure())
    tally.lose(lost, places)
    n_lines, n_events, n_names, n_stats, n_children = counts
    _check_count(n_lines, MAX_LINES, "lines")
    tally.need(
        n_lines * _LINE_BYTES
        + n_events * _METADATA_BYTES
        + n_names * _STAT_NAME_BYTES
        + n_stats * (8 + 1 + 8)
        + n_children * 8
    )
    structure = _structure(len(space.begin), *counts)
    wire.walk_planes(b, _FILL, space.begin, space.end, *structure)
    return structure


def _structure(  # noqa: PLR0913, PLR0917  # a size for each group of columns
    planes: int = 0,
    lines: int = 0,
    event_metadata: int = 0,
    stat_metadata: int = 0,
    stats: int = 0,
    children: int = 0,
) -> _Structure:
    def columns(count: int, size: int) -> tuple[NDArray[np.int64], ...]:
        return tuple(np.empty(size, np.int64) for _ in range(count))

    return _Structure(
        columns(7, planes),
        columns(8, lines),
        columns(6, event_metadata),
        columns(2, stat_metadata),
        (np.empty(stats, np.int64), np.empty(stats, np.uint8), np.empty(stats, np.uint64)),
        np.empty(children, np.int64),
    )


def _decode_lines(b: NDArray[np.uint8], structure: _Structure, tally: _Tally) -> _Events:
    begin, end, timestamp_ns = structure.lines[6], structure.lines[7], structure.lines[4]
    own_ids, own_kinds, own_values = structure.stats
    n_lines, n_own = len(begin), len(own_ids)
    events, stats = np.empty(n_lines, np.int64), np.empty(n_lines, np.int64)

    def scan(first: int, last: int) -> tuple[int, bool, int, int]:
        found: tuple[int, bool, int, int] = wire.scan_lines(
            b, first, last, begin, end, events, stats
        )
        return found

    scanned = _in_parts(scan, end - begin)
    aggregated = any(part[0] for part in scanned)
    tally.lose(sum(part[2] for part in scanned), sum(part[3] for part in scanned))
    event_begin = np.concatenate([[0], np.cumsum(events)])
    stat_begin = n_own + np.concatenate([[0], np.cumsum(stats)])
    n_events, n_stats = int(event_begin[-1]), int(stat_begin[-1])

    # Ids are small in every file met so far: half of 64 bits do, if those of the stats of planes
    # and metadata, which share the column with those of events, are small too.
    wide = any(part[1] for part in scanned) or bool((own_ids != own_ids.astype(np.int32)).any())
    id_type: type[np.int32 | np.int64] = np.int64 if wide else np.int32
    id_bytes = 8 if wide else 4
    tally.need(
        n_events * (id_bytes + 3 * 8 + (8 if aggregated else 0)) + n_stats * (id_bytes + 1 + 8)
    )
    stat_id: NDArray[Any] = np.empty(n_stats, id_type)
    stat_kind, stat_value = np.empty(n_stats, np.uint8), np.empty(n_stats, np.uint64)
    stat_id[:n_own], stat_kind[:n_own], stat_value[:n_own] = own_ids, own_kinds, own_values
    metadata_id: NDArray[Any] = np.empty(n_events, id_type)
    start_ps, duration_ps = np.empty(n_events, np.int64), np.empty(n_events, np.int64)
    first_stat = np.empty(n_events + 1, np.int64)
    first_stat[n_events] = n_stats
    event = (metadata_id, start_ps, duration_ps, first_stat)
    occurrences = np.empty(n_events if aggregated else 0, np.int64)

    def fill(first: int, last: int) -> None:
        wire.fill_lines(
            b, first, last, (begin, end, timestamp_ns),
            event_begin, stat_begin, event, occurrences, (stat_id, stat_kind, stat_value),
        )  # fmt: skip

    _in_parts(fill, end - begin)
    return _Events(
        event_begin,
        event,
        occurrences if aggregated else None,
        Stats(id=stat_id, kind=stat_kind, value=stat_value),
    )


def _in_parts(work: Callable[[int, int], _Found], sizes: NDArray[np.int64]) -> list[_Found]:
    """Call `work` for all lines, from a first one up to a last, in threads where that is worth it.

    Lines differ in length by orders of magnitude: they are cut where the bytes, not the lines,
    halve.
    """
    total = np.concatenate([[0], np.cumsum(sizes)])
    if total[-1] < _WORTH_THREADS:
        return [work(0, len(sizes))]
    cuts = np.searchsorted(total, np.linspace(0, total[-1], 4 * _WORKERS + 1)[1:-1]).tolist()
    with ThreadPoolExecutor(_WORKERS) as pool:
        return list(pool.map(work, [0, *cuts], [*cuts, len(sizes)]))


def _planes(b: NDArray[np.uint8], structure: _Structure, events: _Events) -> tuple[Plane, ...]:
    plane_id, name_at, *firsts, own_first, own_count = structure.plane

    def bounds(first: NDArray[np.int64], total: int) -> list[tuple[int, int]]:
        return list(pairwise([*first.tolist(), total]))

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
                stat_names=dict(
                    zip(
                        structure.stat_metadata[0][stat_metadata].tolist(),
                        texts_at(b, structure.stat_metadata[1][stat_metadata]),
                        strict=True,
                    )
                ),
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
        name=tuple(texts_at(b, name)),
        display_name=tuple(texts_at(b, display_name)),
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
    return tuple(texts_at(b, space.string_at[space.string_field == field]))


def _check_count(count: int, limit: int, what: str) -> None:
    if count > limit:
        msg = f"{count} {what} are no plausible profile (limit {limit}); record anew"
        raise TraceFormatError(msg)
