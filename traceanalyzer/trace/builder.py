"""Builds a `Trace` from Python values, for the formats that are not an XSpace.

The columns are those that `xplane.decode` makes, so nothing after the reader knows the difference.
Strings are interned into one buffer, each behind its length as in the wire format. Values are kept
in arrays of machine numbers, since a trace may hold a million events.
"""

from __future__ import annotations

import struct
from array import array
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from traceanalyzer.errors import TraceFormatError
from traceanalyzer.native import wire
from traceanalyzer.trace.columns import Lines, Metadata, Plane, Stats, Trace
from traceanalyzer.trace.memory_need import refuse_beyond

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from traceanalyzer.trace.columns import Damage


# Start and duration stay below, so that their sum fits 64 bits: 53 days.
LARGEST_PS: Final = 2**62 - 1

# A plane is a device, a line a thread or a stream: a file far above that is no profile, and would
# take far more memory than its bytes.
MAX_PLANES: Final = 1 << 12
MAX_LINES: Final = 1 << 18

_EVENT_BYTES: Final = 80  # in arrays, twice: as collected, and in order
_STAT_BYTES: Final = 40
_STRING_BYTES: Final = 300  # what Python needs to know a string again, beside its characters
_LINE_BYTES: Final = 200


class _Texts:
    """Strings, each once, behind its length in one buffer."""

    def __init__(self) -> None:
        """Begin without any."""
        self.buffer = bytearray()
        self._at: dict[str, int] = {}

    def position(self, text: str) -> int:
        at = self._at.get(text)
        if at is None:
            at = len(self.buffer)
            content = text.encode("utf-8", "replace")  # JSON may hold half a surrogate pair
            self.buffer += _varint(len(content)) + content
            self._at[text] = at
        return at

    def size_bytes(self) -> int:
        return len(self._at) * _STRING_BYTES + 2 * len(self.buffer)


class PlaneBuilder:
    """A plane under construction; its name may be set later, as names may follow events."""

    def __init__(self, trace: TraceBuilder, key: int | str) -> None:
        """Begin an empty plane; `TraceBuilder.plane` does."""
        self.id, self.name = _id_and_name(key)
        self._trace = trace
        self._lines: dict[int | str, int] = {}
        self._line_ids = array("q")
        self._line_names: list[str] = []
        self._names: dict[tuple[int, int], int] = {}  # positions of name and display name
        self._stat_ids: dict[str, int] = {}
        self._event_line = array("i")
        self._event_name = array("i")
        self._start_ps = array("q")
        self._duration_ps = array("q")
        self._stat_count = array("i")
        self._stats = _StatColumns()
        self._own_stats = _StatColumns()

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self._start_ps)

    def line(self, key: int | str) -> int:
        """Return the index of the line of that id or name, as `event` takes it; add it if new."""
        if key not in self._lines:
            self._trace.count_line()
            line_id, name = _id_and_name(key)
            self._lines[key] = len(self._line_names)
            self._line_ids.append(line_id)
            self._line_names.append(name)
        return self._lines[key]

    def name_line(self, line: int, name: str) -> None:
        """Name a line; names may follow events."""
        self._line_names[line] = name

    def stat(self, name: str, value: str | float) -> None:
        """Add a stat of the plane itself."""
        self._own_stats.add(self._stat_id(name), *self._trace.encode(value))

    def event(  # noqa: PLR0913 - the fields of an event
        self,
        line: int,
        name: str,
        start_ps: int,
        duration_ps: int,
        *,
        display_name: str = "",
        stats: Mapping[str, str | float] | None = None,
    ) -> None:
        """Add an event, in any order; times are from 0 to `LARGEST_PS`."""
        if not (0 <= start_ps <= LARGEST_PS and 0 <= duration_ps <= LARGEST_PS):
            msg = f"an event's start {start_ps} or duration {duration_ps} is out of range"
            raise ValueError(msg)
        stats = stats or {}
        for key, value in stats.items():
            self._stats.add(self._stat_id(key), *self._trace.encode(value))
        at = self._trace.position
        named = (at(name), at(display_name) if display_name else -1)
        self._event_line.append(line)
        self._event_name.append(self._names.setdefault(named, len(self._names)))
        self._start_ps.append(start_ps)
        self._duration_ps.append(duration_ps)
        self._stat_count.append(len(stats))
        self._trace.count_event(len(stats))

    def ordered_stats(self) -> tuple[Stats, Stats]:
        """Return the plane's own stats, and those of its events in the events' order."""
        count = _column(self._stat_count, np.int64)
        begin = np.cumsum(count) - count
        ordered = count[self._order()]
        # Row of each stat: its event's first, and its place among that event's.
        within = np.arange(int(ordered.sum())) - np.repeat(np.cumsum(ordered) - ordered, ordered)
        rows = np.repeat(begin[self._order()], ordered) + within
        events = self._stats.to_stats()
        return self._own_stats.to_stats(), Stats(
            id=events.id[rows], kind=events.kind[rows], value=events.value[rows]
        )

    def to_plane(
        self,
        stats: Stats,
        first_stat: int,
        buffer: NDArray[np.uint8],
    ) -> Plane:
        """Return the plane, whose stats begin at `first_stat` in `stats`."""
        order = self._order()
        own = range(first_stat, first_stat + len(self._own_stats))
        lines, entries = len(self._line_names), len(self._names)
        names_at = np.array(list(self._names), np.int64).reshape(-1, 2)
        per_line = np.bincount(_column(self._event_line, np.int32), minlength=lines)
        no_times = np.zeros(lines, np.int64)
        return Plane(
            name=self.name,
            id=self.id,
            lines=Lines(
                id=_column(self._line_ids, np.int64),
                display_id=no_times,
                name=tuple(self._line_names),
                display_name=("",) * lines,
                timestamp_ns=no_times,
                duration_ps=no_times,
                event_begin=_begins(per_line),
            ),
            metadata_id=_column(self._event_name, np.int32)[order],
            start_ps=_column(self._start_ps, np.int64)[order],
            duration_ps=_column(self._duration_ps, np.int64)[order],
            occurrences=None,
            stat_begin=_begins(_column(self._stat_count, np.int64)[order]) + own.stop,
            metadata=Metadata(
                id=np.arange(entries, dtype=np.int64),
                name_at=names_at[:, 0],
                display_name_at=names_at[:, 1],
                metadata_at=np.full(entries, -1, np.int64),
                stat_begin=np.zeros(entries + 1, np.int64),
                child_begin=np.zeros(entries + 1, np.int64),
                child_id=np.empty(0, np.int64),
            ),
            stat_names={key: name for name, key in self._stat_ids.items()},
            stats=stats,
            own_stats=own,
            buffer=buffer,
        )

    def _stat_id(self, name: str) -> int:
        stat_id = self._stat_ids.get(name)
        if stat_id is None:
            stat_id = self._stat_ids[name] = len(self._stat_ids) + 1
            self._trace.position(name)  # not looked up there, but counted as memory
        return stat_id

    def _order(self) -> NDArray[np.int64]:
        """Order events by line, start, and the longer first: each after what encloses it."""
        return np.lexsort(
            (
                -_column(self._duration_ps, np.int64),
                _column(self._start_ps, np.int64),
                _column(self._event_line, np.int32),
            )
        )


class TraceBuilder:
    """A trace in the making."""

    def __init__(self, trace_format: str, *, max_bytes: int | None = None) -> None:
        """Begin an empty trace that refuses to grow beyond `max_bytes` of memory, about."""
        self._format = trace_format
        self._max_bytes = max_bytes
        self._texts = _Texts()
        self._planes: dict[int | str, PlaneBuilder] = {}
        self._events = self._stats = self._lines = 0

    @property
    def events(self) -> int:
        """Events added so far."""
        return self._events

    def plane(self, key: int | str) -> PlaneBuilder:
        """Return the plane of that id or name; add it if new."""
        if key not in self._planes:
            if len(self._planes) >= MAX_PLANES:
                msg = f"more than {MAX_PLANES:,} processes cannot be a profile; record again"
                raise TraceFormatError(msg)
            self._planes[key] = PlaneBuilder(self, key)
        return self._planes[key]

    def build(
        self,
        *,
        damage: Damage | None = None,
        errors: tuple[str, ...] = (),
        warnings: tuple[str, ...] = (),
        hostnames: tuple[str, ...] = (),
    ) -> Trace:
        """Return the trace; the builder is spent."""
        buffer = np.frombuffer(bytes(self._texts.buffer), np.uint8)
        parts = [part for plane in self._planes.values() for part in plane.ordered_stats()]
        stats = _join(parts)
        # A plane's own stats come before those of its events.
        first = _begins(np.array([len(part.id) for part in parts], np.int64))[:-1:2]
        planes = tuple(
            plane.to_plane(stats, int(begin), buffer)
            for plane, begin in zip(self._planes.values(), first, strict=True)
        )
        return Trace(
            planes=planes,
            hostnames=hostnames,
            errors=errors,
            warnings=warnings,
            damage=damage,
            format=self._format,
        )

    def position(self, text: str) -> int:
        """Return the string's position in the buffer."""
        return self._texts.position(text)

    def encode(self, value: str | float) -> tuple[int, int]:
        """Return kind and bits of a stat's value."""
        if isinstance(value, str):
            return wire.STRING, self._texts.position(value)
        if isinstance(value, float):
            return wire.DOUBLE, int.from_bytes(struct.pack("<d", value), "little")
        if -(2**63) <= value < 2**63:
            return wire.INT64, value & (2**64 - 1)
        if 0 <= value < 2**64:
            return wire.UINT64, value
        return wire.STRING, self._texts.position(str(value))

    def count_line(self) -> None:
        """Account for a line."""
        self._lines += 1
        if self._lines > MAX_LINES:
            msg = f"more than {MAX_LINES:,} threads cannot be a profile; record again"
            raise TraceFormatError(msg)

    def count_event(self, stats: int) -> None:
        """Account for an event and its stats."""
        self._events += 1
        self._stats += stats
        if self._max_bytes is None:
            return
        size = (
            self._events * _EVENT_BYTES
            + self._stats * _STAT_BYTES
            + self._lines * _LINE_BYTES
            + self._texts.size_bytes()
        )
        refuse_beyond(self._max_bytes, size)


class _StatColumns:
    """Stats in order of owner, as in `Stats`."""

    def __init__(self) -> None:
        """Begin without any."""
        self.id = array("i")
        self.kind = array("B")
        self.value = array("Q")

    def __len__(self) -> int:
        return len(self.id)

    def add(self, stat_id: int, kind: int, bits: int) -> None:
        self.id.append(stat_id)
        self.kind.append(kind)
        self.value.append(bits)

    def to_stats(self) -> Stats:
        return Stats(
            id=_column(self.id, np.int32),
            kind=_column(self.kind, np.uint8),
            value=_column(self.value, np.uint64),
        )


def _join(parts: list[Stats]) -> Stats:
    return Stats(
        id=np.concatenate([np.empty(0, np.int32), *(p.id for p in parts)], dtype=np.int32),
        kind=np.concatenate([np.empty(0, np.uint8), *(p.kind for p in parts)], dtype=np.uint8),
        value=np.concatenate([np.empty(0, np.uint64), *(p.value for p in parts)], dtype=np.uint64),
    )


def _begins(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where each of consecutive groups begins, and where the last ends."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _id_and_name(key: int | str) -> tuple[int, str]:
    return (0, key) if isinstance(key, str) else (key, "")


def _column(values: array[int], dtype: type[np.generic]) -> NDArray[Any]:
    # A copy: an array whose buffer numpy holds could not grow.
    return np.array(values, dtype)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - seven bits a byte
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
