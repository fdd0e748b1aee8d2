"""Stores the planes, lines, events, and stats of a trace as columns, named as in xplane.proto."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.native import wire
from traceanalyzer.trace.strings import (
    SEED,
    IntegerColumn,
    Strings,
    bytes_at,
    distinct,
    numbered,
    texts_at,
    whole_number,
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Stats:
    """The stats of a trace, in the order of their events."""

    id: NDArray[np.int64]  #: key into the plane's stat metadata; int32 or int64
    kind: NDArray[np.uint8]  #: field number of the value in XStat (`wire.DOUBLE` ...), 0 for none
    value: NDArray[np.uint64]  #: the value's bits, or the position of a string


@dataclass(frozen=True, eq=False, kw_only=True)
class Lines:
    """The lines of a plane. Arrays have one entry per line and are named as in XLine."""

    id: NDArray[np.int64]  #: a thread, a stream; several lines may share one
    name: tuple[str, ...]
    timestamp_ns: NDArray[np.int64]  #: start of the line on the trace's clock
    event_begin: NDArray[np.int64]  #: each line's first event in the plane; one longer

    def __len__(self) -> int:
        return len(self.id)


@dataclass(frozen=True, eq=False, kw_only=True)
class Metadata:
    """The event metadata of a plane. Missing positions are -1."""

    id: NDArray[np.int64]
    name_at: NDArray[np.int64]  #: position of the name
    display_name_at: NDArray[np.int64]
    stat_begin: NDArray[np.int64]  #: first stat of each entry; one longer


@dataclass(frozen=True, kw_only=True)
class Damage:
    """The extent of a file's damage."""

    bytes_lost: int
    places: int  #: planes and lines that end early
    events_kept: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Plane:
    """One XPlane: a view into the trace's columns.

    Arrays of events have one entry per event, line by line. `start_ps` is on the trace's clock and
    includes the line's timestamp.
    """

    name: str
    id: int
    lines: Lines
    metadata_id: NDArray[np.int64]  #: int32 or int64
    start_ps: NDArray[np.int64]
    duration_ps: NDArray[np.int64]
    occurrences: NDArray[np.int64] | None  #: None if no event of the file has num_occurrences
    stat_begin: NDArray[np.int64]  #: first stat of each event, an index into `stats`; one longer
    metadata: Metadata
    stat_names: dict[int, str]  #: by id of the stat metadata
    stats: Stats  #: of the whole trace
    own_stats: range  #: those of the plane itself
    buffer: NDArray[np.uint8] = field(repr=False)  #: the file, which positions refer to

    def __len__(self) -> int:
        return len(self.start_ps)

    @cached_property
    def line_of(self) -> NDArray[np.int32]:
        """The index of each event's line."""
        counts = np.diff(self.lines.event_begin)
        return np.repeat(np.arange(len(self.lines), dtype=np.int32), counts)

    @cached_property
    def end_ps(self) -> NDArray[np.int64]:
        """The end of each event."""
        return self.start_ps + self.duration_ps

    @cached_property
    def name_of(self) -> NDArray[np.int32]:
        """The index of each event's name in `names`. The last index is for missing metadata."""
        keys = self.metadata.id
        unknown = len(keys)
        order = np.argsort(keys, kind="stable")
        # The last of several entries with the same key counts, as in a protobuf map.
        lookup: NDArray[np.int32]
        low, high = (int(keys.min()), int(keys.max())) if len(keys) else (0, -1)
        if low >= 0 and high < 4 * len(keys) + 1024:
            lookup = np.full(high + 2, unknown, np.int32)
            lookup[keys[order]] = order
            ids = np.clip(self.metadata_id, -1, high + 1)
            return lookup[ids]  # -1 is the last entry: unknown
        slots = np.searchsorted(keys[order], self.metadata_id, side="right") - 1
        found = keys[order][slots] == self.metadata_id  # never so for -1: all keys are larger
        return np.where(found, order[slots], unknown).astype(np.int32)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names in the event metadata. The last one is empty, for missing metadata."""
        return (*texts_at(self.buffer, self.metadata.name_at), "")

    @cached_property
    def display_names(self) -> tuple[str, ...]:
        """The display names, parallel to `names`."""
        return (*texts_at(self.buffer, self.metadata.display_name_at), "")

    def named(self, *names: str) -> NDArray[np.int64]:
        """Return the indices of the events with one of the names."""
        wanted = np.fromiter((n in names for n in self.names), np.bool_, len(self.names))
        return np.flatnonzero(wanted[self.name_of]) if wanted.any() else np.empty(0, np.int64)

    def strings(self, stat: str, event: NDArray[np.int64] | None = None) -> Strings:
        """Return a stat of the given events (default: all), or of their metadata, as text."""
        return self._decode_strings(self._rows(stat, event))

    def integers(self, stat: str, event: NDArray[np.int64] | None = None) -> IntegerColumn:
        """Return a stat of the given events (default: all), or of their metadata, as integers.

        Decimal text is parsed. Columns of all events are cached, so do not write to them.
        """
        if event is not None:
            return self._decode_integers(self._rows(stat, event))
        if stat not in self._integers:
            self._integers[stat] = self._decode_integers(self._rows(stat, None))
        return self._integers[stat]

    def floats(self, stat: str, event: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return a stat of some events as floats, with NaN if it is not a number.

        Integers are converted, since TraceMeEncode can write a float as an integer.
        """
        rows = self._rows(stat, event)
        values = np.full(len(rows), np.nan)
        have = np.flatnonzero(rows >= 0)
        kind, bits = self.stats.kind[rows[have]], self.stats.value[rows[have]]
        for which, dtype in _NUMBERS.items():
            mask = kind == which
            values[have[mask]] = bits[mask].view(dtype)
        return values

    def has_stat(self, stat: str) -> bool:
        """Return whether the plane has metadata for a stat of this name."""
        return stat in self._stat_ids

    @cached_property
    def own(self) -> dict[str, str]:
        """The plane's own stats as text, by name."""
        rows = np.arange(self.own_stats.start, self.own_stats.stop, dtype=np.int64)
        texts = self._decode_strings(rows).to_list()
        names = [self.stat_names.get(int(i), "") for i in self.stats.id[rows]]
        return {n: t for n, t in zip(names, texts, strict=True) if t is not None}

    def own_bytes(self, stat: str) -> bytes | None:
        """Return one of the plane's own stats as bytes, such as a serialized message."""
        for row in self.own_stats:
            is_text = self.stats.kind[row] in {wire.STRING, wire.BYTES}
            if is_text and self.stat_names.get(int(self.stats.id[row])) == stat:
                return bytes_at(self.buffer, int(self.stats.value[row]))
        return None

    @cached_property
    def _integers(self) -> dict[str, IntegerColumn]:
        return {}

    @cached_property
    def _stat_ids(self) -> dict[str, list[int]]:
        ids: dict[str, list[int]] = {}
        for key, name in self.stat_names.items():
            ids.setdefault(name, []).append(key)
        return ids

    def _rows(self, stat: str, event: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """Return the index in `stats` of each event's stat, or -1 if it has none."""
        rows = np.full(len(self) if event is None else len(event), -1, np.int64)
        if stat not in self._stat_ids:
            return rows
        ids = np.sort(np.array(self._stat_ids[stat], np.int64))
        first = self.metadata.stat_begin
        if first[-1] > first[0]:
            inherited = np.full(len(first), -1, np.int64)  # one more: unknown metadata has none
            wire.find_stat(first[:-1], first[1:], self.stats.id, ids, inherited[:-1])
            rows = inherited[self.name_of if event is None else self.name_of[event]]
        begin, end = self.stat_begin[:-1], self.stat_begin[1:]
        if event is not None:
            begin, end = begin[event], end[event]
        wire.find_stat(begin, end, self.stats.id, ids, rows)
        return rows

    def _decode_strings(self, rows: NDArray[np.int64]) -> Strings:
        """Return the stats at these rows as text. Row -1 becomes a missing value."""
        codes = np.full(len(rows), -1, np.int32)
        have = np.flatnonzero(rows >= 0)
        wanted = rows[have]
        again: NDArray[np.int64] | slice = slice(None)
        # Read a stat once that a million events inherit.
        if (wanted[1:] <= wanted[:-1]).any():
            wanted, again = np.unique(wanted, return_inverse=True)
        found, values = self._texts(wanted)
        codes[have] = found[again]
        return distinct(codes, values)

    def _texts(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int32], list[str]]:
        """Return text codes for these rows of `stats`, and the texts, which may repeat."""
        codes = np.full(len(rows), -1, np.int32)
        values: list[str] = []
        kind, bits = self.stats.kind[rows], self.stats.value[rows]
        texts = (kind == wire.STRING) | (kind == wire.BYTES)
        if texts.any():
            found, first = wire.intern_strings(self.buffer, SEED, bits[texts].astype(np.int64))
            codes[texts] = found
            values += texts_at(self.buffer, first)
        for which in (wire.REF, *_NUMBERS):
            mask = kind == which
            if mask.any():
                some, place = numbered(bits[mask])
                codes[mask] = place + len(values)
                if which == wire.REF:
                    values += [self.stat_names.get(int(i), "") for i in some.view(np.int64)]
                else:
                    values += [str(v) for v in some.view(_NUMBERS[which]).tolist()]
        return codes, values

    def _decode_integers(self, rows: NDArray[np.int64]) -> IntegerColumn:
        """Return the stats at these rows as integers. Row -1 becomes a missing value."""
        have = np.flatnonzero(rows >= 0)
        kind, bits = self.stats.kind[rows[have]], self.stats.value[rows[have]]
        found = bits.view(np.int64)
        known = (kind == wire.INT64) | (kind == wire.UINT64)
        doubles = kind == wire.DOUBLE
        if doubles.any():
            numbers = bits[doubles].view(np.float64)
            known[doubles] = np.abs(numbers) < 2.0**62  # false for NaN and infinity too
            found[doubles] = np.where(known[doubles], numbers, 0).astype(np.int64)
        texts = (kind == wire.STRING) | (kind == wire.REF) | (kind == wire.BYTES)
        if texts.any():
            column = self._decode_strings(rows[have[texts]])
            parsed = [whole_number(v) for v in column.values]
            table = np.array([p or 0 for p in parsed], np.int64)
            valid = np.array([p is not None for p in parsed], np.bool_)
            found[texts], known[texts] = table[column.codes], valid[column.codes]
        values = np.zeros(len(rows), np.int64)
        present = np.zeros(len(rows), np.bool_)
        values[have[known]], present[have[known]] = found[known], True
        return IntegerColumn(values, present)


@dataclass(frozen=True, eq=False, kw_only=True)
class Trace:
    """One host's trace, with planes in the order of the file."""

    planes: tuple[Plane, ...]
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    damage: Damage | None = None
    format: str = "xplane"  #: `xplane`, `trace.json`, `timeline` or `local.trace`
    is_one_run: bool = False  #: whether it is the `timeline` of one call of `Session.run`
    origin_ns: int = 0  #: subtracted from all times by `clock.on_one_clock`
    impossible_events: int = 0  #: left out because their times are impossible
    emptied_planes: tuple[str, ...] = ()  #: names of planes that have no other events

    @property
    def events(self) -> int:
        """The number of events in all planes."""
        return sum(len(p) for p in self.planes)

    @property
    def unnamed_events(self) -> int:
        """The number of events whose metadata, and thus name, is missing."""
        return sum(int(np.count_nonzero(p.name_of == len(p.metadata.id))) for p in self.planes)


_NUMBERS: Final[dict[int, type[np.number]]] = {
    wire.INT64: np.int64,
    wire.UINT64: np.uint64,
    wire.DOUBLE: np.float64,
}
# The id of a stat that was removed from its event, by the dtype of ids.
NO_STAT: Final[dict[np.dtype[np.int32 | np.int64], int]] = {
    np.dtype(t): int(np.iinfo(t).min) for t in (np.int32, np.int64)
}
