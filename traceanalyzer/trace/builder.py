"""Builds a `Trace` from Python values, for the formats that are not an XSpace.

It writes an XSpace and decodes that, so nothing after the reader knows the difference. Numbers of
fields are those of xplane.proto.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.trace import xplane
from traceanalyzer.trace.memory_need import MemoryNeed
from traceanalyzer.trace.message import double_field, message_field, number_field, text_field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traceanalyzer.trace.columns import Damage, Trace


# Start and duration stay below, so that their sum fits 64 bits: 53 days.
LARGEST_PS: Final = 2**62 - 1

_LINE_BYTES: Final = 500  # what Python takes for a plane or a line


class Line:
    """A line under construction; its name may be set later, as names may follow events."""

    def __init__(self, key: int | str) -> None:
        self.id, self.name = _id_and_name(key)
        self.events = bytearray()


class PlaneBuilder:
    """A plane under construction; its name may be set later."""

    def __init__(self, trace: TraceBuilder, key: int | str) -> None:
        self.id, self.name = _id_and_name(key)
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
        event = number_field(1, name_id) + number_field(2, start_ps) + number_field(3, duration_ps)
        for stat, value in (stats or {}).items():
            event += _stat(self._stats.setdefault(stat, len(self._stats)), value)
        self._trace.need.add(len(event))
        self._trace.events += 1
        line.events += message_field(4, event)

    def message(self) -> bytes:
        """Return the plane as an XPlane."""
        lines = [
            number_field(1, line.id) + text_field(2, line.name) + line.events
            for line in self._lines.values()
        ]
        names = [
            number_field(1, key) + message_field(2, text_field(2, name) + text_field(4, display))
            for (name, display), key in self._names.items()
        ]
        stats = [
            number_field(1, key) + message_field(2, text_field(2, name))
            for name, key in self._stats.items()
        ]
        fields = [(3, line) for line in lines] + [(4, n) for n in names] + [(5, s) for s in stats]
        about = number_field(1, self.id) + text_field(2, self.name)
        return about + b"".join(message_field(field, content) for field, content in fields)


class TraceBuilder:
    """A trace in the making."""

    def __init__(self, trace_format: str, *, max_bytes: int | None = None) -> None:
        """Begin an empty trace that refuses to grow beyond `max_bytes` of memory, about."""
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

    def build(self, *, damage: Damage | None = None, warnings: tuple[str, ...] = ()) -> Trace:
        """Return the trace."""
        space = b"".join(message_field(1, plane.message()) for plane in self._planes.values())
        trace = xplane.decode(np.frombuffer(space, np.uint8), max_bytes=self._max_bytes)
        return replace(trace, damage=damage, warnings=warnings, format=self._format)


def _id_and_name(key: int | str) -> tuple[int, str]:
    return (0, key) if isinstance(key, str) else (key, "")


@lru_cache(maxsize=1 << 12, typed=True)  # most stats recur
def _stat(stat_id: int, value: str | float) -> bytes:
    """Return the field of an XEvent that holds a stat."""
    if isinstance(value, float):
        content = double_field(2, value)
    elif isinstance(value, int) and -(2**63) <= value < 2**63:
        content = number_field(4, value)
    elif isinstance(value, int) and 0 <= value < 2**64:
        content = number_field(3, value)
    else:
        content = text_field(5, str(value))
    return message_field(4, number_field(1, stat_id) + content)
