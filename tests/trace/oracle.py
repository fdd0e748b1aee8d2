"""What a trace holds, told in plain Python twice: by the decoder and by protobuf's own parser."""

import math
import struct
from typing import Any, NamedTuple

from traceanalyzer.native import wire
from traceanalyzer.trace.columns import Plane, Trace
from traceanalyzer.trace.strings import bytes_at


class Told(NamedTuple):
    """A trace."""

    errors: tuple[str, ...]
    warnings: tuple[str, ...]
    planes: list[dict[str, Any]]


_KINDS = {
    "double_value": wire.DOUBLE,
    "uint64_value": wire.UINT64,
    "int64_value": wire.INT64,
    "str_value": wire.STRING,
    "bytes_value": wire.BYTES,
    "ref_value": wire.REF,
    None: 0,
}


def told_by_protobuf(space: Any) -> Told:  # noqa: ANN401  # a message
    """What protobuf's parser has read."""
    return Told(
        tuple(space.errors),
        tuple(space.warnings),
        [_plane_message(plane) for plane in space.planes],
    )


def _plane_message(plane: Any) -> dict[str, Any]:  # noqa: ANN401
    return {
        "id": plane.id,
        "name": plane.name,
        "stats": _stat_messages(plane.stats),
        "stat_metadata": {key: entry.name for key, entry in plane.stat_metadata.items()},
        "event_metadata": {
            key: (
                entry.name,
                entry.display_name,
                _stat_messages(entry.stats),
            )
            for key, entry in plane.event_metadata.items()
        },
        "lines": [
            (line.id, line.name, line.timestamp_ns,
             [_event_message(line, event) for event in line.events])
            for line in plane.lines
        ],
    }  # fmt: skip


def _event_message(line: Any, event: Any) -> tuple[Any, ...]:  # noqa: ANN401
    aggregated = event.WhichOneof("data") == "num_occurrences"
    return (
        event.metadata_id,
        _signed(line.timestamp_ns * 1000 + event.offset_ps),
        event.duration_ps,
        event.num_occurrences if aggregated else 1,
        _stat_messages(event.stats),
    )


def _stat_messages(stats: Any) -> list[tuple[int, int, Any]]:  # noqa: ANN401
    found = []
    for stat in stats:
        kind = stat.WhichOneof("value")
        value = getattr(stat, kind) if kind else None
        if kind == "double_value":
            value = _comparable(value)
        elif kind == "str_value":
            value = value.encode()
        found.append((stat.metadata_id, _KINDS[kind], value))
    return found


def told_by_decoder(trace: Trace) -> Told:
    """What the decoder has read."""
    return Told(trace.errors, trace.warnings, [_plane_columns(p) for p in trace.planes])


def _plane_columns(plane: Plane) -> dict[str, Any]:
    stats = _Stats(plane)
    about = plane.metadata
    lines = plane.lines
    begin = plane.stat_begin.tolist()
    occurrences = [1] * len(plane) if plane.occurrences is None else plane.occurrences.tolist()
    events = [
        (*fields, stats.between(first, last))
        for *fields, first, last in zip(
            plane.metadata_id.tolist(),
            plane.start_ps.tolist(),
            plane.duration_ps.tolist(),
            occurrences,
            begin[:-1],
            begin[1:],
            strict=True,
        )
    ]
    event_begin = lines.event_begin.tolist()
    return {
        "id": plane.id,
        "name": plane.name,
        "stats": stats.between(plane.own_stats.start, plane.own_stats.stop),
        "stat_metadata": plane.stat_names,
        "event_metadata": {
            int(key): (name, display_name, stats.between(*about.stat_begin[k : k + 2].tolist()))
            for k, (key, name, display_name) in enumerate(
                zip(about.id, plane.names[:-1], plane.display_names[:-1], strict=True)
            )
        },
        "lines": [
            (*fields, events[first:last])
            for *fields, first, last in zip(
                lines.id.tolist(),
                lines.name,
                lines.timestamp_ns.tolist(),
                event_begin[:-1],
                event_begin[1:],
                strict=True,
            )
        ],
    }


class _Stats:
    def __init__(self, plane: Plane) -> None:
        self._buffer = plane.buffer
        self._id = plane.stats.id.tolist()
        self._kind = plane.stats.kind.tolist()
        self._value = plane.stats.value.tolist()

    def between(self, first: int, last: int) -> list[tuple[int, int, Any]]:
        return [(self._id[s], self._kind[s], self._read(s)) for s in range(first, last)]

    def _read(self, stat: int) -> Any:  # noqa: ANN401
        kind, value = self._kind[stat], self._value[stat]
        if kind == wire.DOUBLE:
            return _comparable(struct.unpack("<d", struct.pack("<Q", value))[0])
        if kind == wire.INT64:
            return _signed(value)
        if kind in {wire.STRING, wire.BYTES}:
            return bytes_at(self._buffer, value)
        return value if kind else None


def _signed(number: int) -> int:
    """The number in 64 bits, as both wrap it."""
    return (number + 2**63) % 2**64 - 2**63


def _comparable(number: float) -> float | str:
    """A number equal to itself, unlike NaN, and zeros apart by their sign."""
    return repr(number) if math.isnan(number) or number == 0 else number


def use(trace: Trace) -> None:
    """Ask for all that a trace can be asked, so that what is read on demand is read."""
    told_by_decoder(trace)
    for plane in trace.planes:
        assert len(plane.name_of) == len(plane.line_of) == len(plane.end_ps) == len(plane)
        assert plane.name_of.min(initial=0) >= 0
        assert plane.name_of.max(initial=0) < len(plane.names)
        assert len(plane.names) == len(plane.display_names)
        plane.named("a", "")
        for stat in set(plane.stat_names.values()):
            assert len(plane.strings(stat).to_list()) == len(plane)
            assert len(plane.integers(stat).values) == len(plane)
            plane.own_bytes(stat)
        assert set(plane.own) <= {*plane.stat_names.values(), ""}
