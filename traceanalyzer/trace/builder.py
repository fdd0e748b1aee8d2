"""Builds a `Trace` from Python values, for the formats that are not an XSpace.

It writes an XSpace and decodes that, so later code sees no difference. Field numbers are those of
xplane.proto.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.trace import xplane
from traceanalyzer.trace.limits import MemoryNeed
from traceanalyzer.trace.message import FIXED64, LENGTH, VARINT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traceanalyzer.trace.columns import Damage, Trace


# 53 days: start and duration stay below, so that their sum fits into 64 bits.
LARGEST_PS: Final = 2**62 - 1

_LINE_BYTES: Final = 500  # the memory of a plane or a line in Python
_BITS: Final = 2**64 - 1


class Line:
    """A line under construction; its name may be set later, as names may follow events."""

    def __init__(self, key: int | str) -> None:
        self.id, self.name = (0, key) if isinstance(key, str) else (key, "")
        self.events = bytearray()


class PlaneBuilder:
    """A plane under construction; its name may be set later."""

    def __init__(self, trace: TraceBuilder, key: int | str) -> None:
        self.id, self.name = (0, key) if isinstance(key, str) else (key, "")
        self._trace = trace
        self._lines: dict[int | str, Line] = {}
        self._names: dict[tuple[str, str], int] = {}
        self._stats: dict[str, int] = {}

    def line(self, key: int | str) -> Line:
        """Return the line of that id or name; add it if new."""
        if key not in self._lines:
            self._trace.need.add(_LINE_BYTES)
            self._lines[key] = Line(key)
        return self._lines[key]

    def event(  # noqa: PLR0913 - the fields of an event
        self,
        line: Line,
        name: str,
        start_ps: int,
        duration_ps: int,
        *,
        display_name: str = "",
        stats: Mapping[str, str | float] | None = None,
    ) -> None:
        """Add an event, in any order; times are from 0 to `LARGEST_PS`."""
        name_id = self._names.setdefault((name, display_name), len(self._names))
        event = _number(1, name_id) + _number(2, start_ps) + _number(3, duration_ps)
        for stat, value in (stats or {}).items():
            event += _stat(self._stats.setdefault(stat, len(self._stats)), value)
        self._trace.need.add(len(event))
        self._trace.events += 1
        line.events += _message(4, event)

    def message(self) -> bytes:
        """Return the plane as an XPlane."""
        lines = [
            _number(1, line.id) + _text(2, line.name) + line.events for line in self._lines.values()
        ]
        names = [
            _number(1, key) + _message(2, _text(2, name) + _text(4, display))
            for (name, display), key in self._names.items()
        ]
        stats = [_number(1, key) + _message(2, _text(2, name)) for name, key in self._stats.items()]
        parts = [(3, line) for line in lines] + [(4, n) for n in names] + [(5, s) for s in stats]
        about = _number(1, self.id) + _text(2, self.name)
        return about + b"".join(_message(field, content) for field, content in parts)


class TraceBuilder:
    """A trace under construction; it refuses to grow beyond about `max_bytes` of memory."""

    def __init__(self, trace_format: str, *, max_bytes: int | None = None) -> None:
        self.events = 0
        self.need = MemoryNeed(max_bytes)
        self._format = trace_format
        self._max_bytes = max_bytes
        self._planes: dict[int | str, PlaneBuilder] = {}

    def plane(self, key: int | str) -> PlaneBuilder:
        """Return the plane of that id or name; add it if new."""
        if key not in self._planes:
            self.need.add(_LINE_BYTES)
            self._planes[key] = PlaneBuilder(self, key)
        return self._planes[key]

    def build(self, *, damage: Damage | None = None) -> Trace:
        """Return the trace."""
        space = b"".join(_message(1, plane.message()) for plane in self._planes.values())
        trace = xplane.decode(np.frombuffer(space, np.uint8), max_bytes=self._max_bytes)
        return replace(trace, damage=damage, format=self._format)


@lru_cache(maxsize=1 << 12, typed=True)  # most stats recur
def _stat(stat_id: int, value: str | float) -> bytes:
    """Return the field of an XEvent that holds a stat."""
    if isinstance(value, float):
        content = bytes((2 << 3 | FIXED64,)) + struct.pack("<d", value)
    elif isinstance(value, int) and -(2**63) <= value < 2**63:
        content = _number(4, value)
    elif isinstance(value, int) and 0 <= value < 2**64:
        content = _number(3, value)
    else:
        content = _text(5, str(value))
    return _message(4, _number(1, stat_id) + content)


def _number(field: int, value: int) -> bytes:
    return bytes((field << 3 | VARINT, *_varint(value & _BITS)))


def _text(field: int, text: str) -> bytes:
    """Return a field that holds a string; half a surrogate pair becomes a question mark."""
    return _message(field, text.encode("utf-8", "replace"))


def _message(field: int, content: bytes) -> bytes:
    return bytes((field << 3 | LENGTH, *_varint(len(content)))) + content


def _varint(value: int) -> list[int]:
    out = []
    while value > 0x7F:  # noqa: PLR2004 - seven bits a byte
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return [*out, value]
