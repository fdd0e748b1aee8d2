"""Decodes an XSpace, the content of an `.xplane.pb` file, and its recording options."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.errors import TraceFormatError
from traceanalyzer.native import wire
from traceanalyzer.trace.columns import Damage, Lines, Metadata, Plane, Stats, Trace
from traceanalyzer.trace.limits import MemoryNeed
from traceanalyzer.trace.message import BrokenMessageError, fields
from traceanalyzer.trace.strings import texts_at

# A profile of a host with a thousand cores has a few thousand lines and a few dozen planes. Python
# does the work per plane and line, so a file with far more would take hours and is refused.
MAX_PLANES = 1 << 14
MAX_LINES = 1 << 20
MAX_STRINGS = 1 << 16  # errors, warnings and hostnames

# Bytes per item, in columns and as Python objects.
_PLANE_BYTES = 4096
_LINE_BYTES = 256
_METADATA_BYTES = 64
_STAT_NAME_BYTES = 256
_STRING_BYTES = 128

_WORKERS = 2  # decoding is bound by memory: a third thread gains nothing
_WORTH_THREADS = 1 << 20  # bytes; fewer are not worth starting threads
_ERRORS, _WARNINGS = 2, 3  # field numbers in XSpace
_GIVE_A_TRACE = "pass a trace from TensorFlow's profiler"
_Found = TypeVar("_Found")


class _Tally(MemoryNeed):
    """The memory that a file's report needs, and the bytes that could not be read."""

    bytes_lost = places = 0

    def lose(self, bytes_lost: int, places: int) -> None:
        self.bytes_lost += bytes_lost
        self.places += places


def decode(buffer: NDArray[np.uint8], *, max_bytes: int | None = None) -> Trace:
    """Decode a serialized XSpace. `Trace.damage` describes unreadable parts.

    The buffer must not change, because strings are read from it on demand. Refuse a trace whose
    report would need more memory than `max_bytes`.

    Raises:
        TraceFormatError: It is not an XSpace or is cut short.
        TraceTooLargeError: It needs more memory than `max_bytes`.
    """
    b = buffer.view()
    b.flags.writeable = False
    tally = _Tally(max_bytes)
    space = _scan_space(b, tally)
    structure = _walk_planes(b, space.planes, tally)
    events = _decode_lines(b, structure, tally)
    planes = _planes(b, structure, events)
    errors, warnings = (
        tuple(texts_at(b, space.string_at[space.string_field == field]))
        for field in (_ERRORS, _WARNINGS)
    )
    kept = int(events.event_begin[-1])
    damage = Damage(bytes_lost=tally.bytes_lost, places=tally.places, events_kept=kept)
    return Trace(
        planes=planes, errors=errors, warnings=warnings, damage=damage if damage.places else None
    )


def _scan_space(b: NDArray[np.uint8], tally: _Tally) -> wire.Space:
    _, (n_planes, n_strings, stop, why) = wire.scan_space(b)
    msg = ""
    if why == wire.OVERRUN:
        msg = (
            f"the file is cut short: the field at byte {stop:,} extends past its end "
            f"({len(b):,} bytes); copy it again, or record again"
        )
    elif why == wire.UNREADABLE and not n_planes:
        msg = f"this is not an XSpace: no field begins at byte {stop:,}; {_GIVE_A_TRACE}"
    elif len(b) and not n_planes and not n_strings:
        msg = f"this is not an XSpace: it contains no XSpace fields; {_GIVE_A_TRACE}"
    if msg:
        raise TraceFormatError(msg)
    _check_count(n_planes, MAX_PLANES, "planes")
    _check_count(n_strings, MAX_STRINGS, "errors, warnings, and hostnames")
    tally.add(n_planes * _PLANE_BYTES + n_strings * _STRING_BYTES)
    if stop < len(b):
        tally.lose(len(b) - stop, 1)
    return wire.scan_space(b[:stop], n_planes, n_strings)[0]


def _check_count(count: int, limit: int, what: str) -> None:
    if count > limit:
        msg = f"the file has {count:,} {what} (limit: {limit:,}); record again"
        raise TraceFormatError(msg)


def _walk_planes(
    b: NDArray[np.uint8], planes: NDArray[np.int64], tally: _Tally
) -> wire.PlaneTables:
    begin, end = planes
    *sizes, lost, places = wire.walk_planes(b, begin, end, wire.PlaneTables.empty())
    lines, events, names, stats = sizes
    tally.lose(lost, places)
    _check_count(lines, MAX_LINES, "lines")
    tally.add(lines * _LINE_BYTES + events * _METADATA_BYTES)
    tally.add(names * _STAT_NAME_BYTES + stats * (8 + 1 + 8))
    structure = wire.PlaneTables.empty(len(begin), *sizes)
    wire.walk_planes(b, begin, end, structure)
    return structure


def _decode_lines(
    b: NDArray[np.uint8], structure: wire.PlaneTables, tally: _Tally
) -> wire.LineColumns:
    _, _, timestamp_ns, begin, end = structure.lines
    n_lines, n_own = len(begin), len(structure.stat_id)
    events, stats = np.empty(n_lines, np.int64), np.empty(n_lines, np.int64)
    scanned = _in_parts(
        lambda part: wire.scan_lines(b, part, (begin, end), events, stats), end - begin
    )
    aggregated, wide, lost, places = map(sum, zip(*scanned, strict=True))
    tally.lose(lost, places)
    event_begin = np.concatenate([[0], np.cumsum(events)])
    stat_begin = n_own + np.concatenate([[0], np.cumsum(stats)])
    n_events, n_stats = int(event_begin[-1]), int(stat_begin[-1])

    # Ids are small in every known file, so 32 bits are enough, provided that the ids of planes' and
    # metadata's stats, in the same column, are small, too.
    small = structure.stat_id.astype(np.int32)
    is_wide = wide or bool((structure.stat_id != small).any())
    id_type: type[np.int32 | np.int64] = np.int64 if is_wide else np.int32
    id_bytes = 8 if is_wide else 4
    tally.add(n_events * (id_bytes + 3 * 8 + (8 if aggregated else 0)))
    tally.add(n_stats * (id_bytes + 1 + 8))
    columns = wire.LineColumns(
        begin=begin,
        end=end,
        timestamp_ns=timestamp_ns,
        event_begin=event_begin,
        stat_begin=stat_begin,
        metadata_id=np.empty(n_events, id_type),
        start_ps=np.empty(n_events, np.int64),
        duration_ps=np.empty(n_events, np.int64),
        first_stat=np.empty(n_events + 1, np.int64),
        occurrences=np.empty(n_events if aggregated else 0, np.int64),
        stat_id=np.empty(n_stats, id_type),
        stat_kind=np.empty(n_stats, np.uint8),
        stat_value=np.empty(n_stats, np.uint64),
    )
    columns.first_stat[n_events] = n_stats
    columns.stat_id[:n_own] = structure.stat_id
    columns.stat_kind[:n_own] = structure.stat_kind
    columns.stat_value[:n_own] = structure.stat_value
    _in_parts(lambda part: wire.fill_lines(b, part.start, part.stop, *columns), end - begin)
    return columns


def _in_parts(work: Callable[[range], _Found], sizes: NDArray[np.int64]) -> list[_Found]:
    """Call `work` for ranges of lines with about equal total sizes, in threads if worthwhile."""
    total = np.concatenate([[0], np.cumsum(sizes)])
    if total[-1] < _WORTH_THREADS:
        return [work(range(len(sizes)))]
    cuts = np.searchsorted(total, np.linspace(0, total[-1], 4 * _WORKERS + 1)[1:-1]).tolist()
    with ThreadPoolExecutor(_WORKERS) as pool:
        return list(pool.map(work, map(range, [0, *cuts], [*cuts, len(sizes)])))


def _planes(
    b: NDArray[np.uint8], structure: wire.PlaneTables, events: wire.LineColumns
) -> tuple[Plane, ...]:
    plane_id, name_at, *firsts, own_first, own_count = structure.plane
    tables = structure.lines, structure.event_metadata, structure.stat_metadata
    bounds = [
        pairwise([*first.tolist(), table.shape[1]])
        for first, table in zip(firsts, tables, strict=True)
    ]
    stats = Stats(id=events.stat_id, kind=events.stat_kind, value=events.stat_value)
    planes = []
    plane_names = texts_at(b, name_at)
    for p, parts in enumerate(zip(*bounds, strict=True)):
        lines, metadata, names = map(slice, *zip(*parts, strict=True))
        begin = events.event_begin[lines.start : lines.stop + 1]
        of_events = slice(int(begin[0]), int(begin[-1]))
        line_id, line_name, timestamp_ns, _, _ = structure.lines[:, lines]
        metadata_id, metadata_name, display_name, stat_begin = structure.event_metadata[:, metadata]
        stat_id, stat_name = structure.stat_metadata[:, names]
        own = range(int(own_first[p]), int(own_first[p] + own_count[p]))
        planes.append(
            Plane(
                name=plane_names[p],
                id=int(plane_id[p]),
                lines=Lines(
                    id=line_id,
                    name=tuple(texts_at(b, line_name)),
                    timestamp_ns=timestamp_ns,
                    event_begin=begin - begin[0],
                ),
                metadata_id=events.metadata_id[of_events],
                start_ps=events.start_ps[of_events],
                duration_ps=events.duration_ps[of_events],
                occurrences=events.occurrences[of_events] if len(events.occurrences) else None,
                stat_begin=events.first_stat[of_events.start : of_events.stop + 1],
                metadata=Metadata(
                    id=metadata_id,
                    name_at=metadata_name,
                    display_name_at=display_name,
                    stat_begin=np.append(stat_begin, own.start),
                ),
                stat_names=dict(zip(stat_id.tolist(), texts_at(b, stat_name), strict=True)),
                stats=stats,
                own_stats=own,
                buffer=b,
            )
        )
    return tuple(planes)


# --- Options of the profiler ----------------------------------------------------------------------

_LEVELS = {2: "host_tracer_level", 3: "device_tracer_level", 4: "python_tracer_level"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileOptions:
    """The tracer levels of a profiler session (profiler_options.proto)."""

    host_tracer_level: int = 0
    device_tracer_level: int = 0
    python_tracer_level: int = 0


def profile_options(trace: Trace) -> ProfileOptions | None:
    """Read the serialized ProfileOptions that TensorFlow 2.19 and later write into the trace."""
    data = (p.own_bytes("profile_options") for p in trace.planes if p.name == "Task Environment")
    found = next(filter(None, data), None)
    if found is None:
        return None
    levels: dict[str, int] = {}
    with suppress(BrokenMessageError):  # cut short: keep the levels before the damage
        for number, value, _ in fields(memoryview(found)):
            if number in _LEVELS and isinstance(value, int):
                levels[_LEVELS[number]] = value
    return ProfileOptions(**levels)
