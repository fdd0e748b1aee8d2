"""Builds a `Trace` from Python values, for formats other than XSpace.

The builder writes an XSpace and decodes it, so that later code handles only one format.
"""

import struct
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

import numpy as np

from traceanalyzer.errors import TraceFormatError
from traceanalyzer.format import size_text
from traceanalyzer.trace import xplane
from traceanalyzer.trace.columns import Damage, Trace
from traceanalyzer.trace.limits import MemoryNeed
from traceanalyzer.trace.message import FIXED64, LENGTH, VARINT, encoded

# 53 days: the sum of a start and a duration fits into 64 bits.
LARGEST_PS: Final = 2**62 - 1
# TensorFlow wrote at most a million events, a few hundred megabytes. Python takes about five
# seconds per 100 MB.
MAX_FILE_BYTES: Final = 1 << 30

_TAGS: Final = [bytes((tag,)) for tag in range(128)]
_LINE_BYTES: Final = 500  # the memory of a plane or a line in Python


@dataclass
class _Plane:
    name: str = ""
    line_names: dict[int, str] = field(default_factory=dict)
    events: dict[int, bytearray] = field(default_factory=lambda: defaultdict(bytearray))  #: by line
    names: dict[tuple[str, str], int] = field(default_factory=dict)
    stats: dict[str, int] = field(default_factory=dict)

    def message(self, number: int, at_ns: int) -> bytes:
        at = _number(3, at_ns) if at_ns else b""
        lines = [
            _number(1, line) + _text(2, self.line_names.get(line, "")) + at + events
            for line, events in self.events.items()
        ]
        names = [
            _number(1, key) + _message(2, _text(2, name) + _text(4, display))
            for (name, display), key in self.names.items()
        ]
        stats = [_number(1, key) + _message(2, _text(2, name)) for name, key in self.stats.items()]
        parts = [(3, line) for line in lines] + [(4, n) for n in names] + [(5, s) for s in stats]
        about = _number(1, number) + _text(2, self.name)
        return about + b"".join(_message(field, content) for field, content in parts)


def check_size(trace_format: str, file_bytes: int) -> None:
    """Raise TraceFormatError if a file is larger than any that TensorFlow writes."""
    if file_bytes > MAX_FILE_BYTES:
        msg = (
            f"the {trace_format} is too large: it is {size_text(file_bytes)}, but TensorFlow "
            f"writes at most {size_text(MAX_FILE_BYTES)}; record again"
        )
        raise TraceFormatError(msg)


class TraceBuilder:
    """A trace under construction. Its report may need at most about `max_bytes` of memory."""

    def __init__(
        self,
        trace_format: str,
        file_bytes: int = 0,
        *,
        max_bytes: int | None = None,
        origin_ns: int = 0,
    ) -> None:
        check_size(trace_format, file_bytes)
        self.events = self._lost_bytes = self._lost_places = self._impossible = 0
        self._lacking: set[int] = set()  # planes with events that were left out
        self._origin_ns = origin_ns  # when time 0 of its events is
        self._need = MemoryNeed(max_bytes)
        self._format = trace_format
        self._max_bytes = max_bytes
        self._planes: dict[int, _Plane] = defaultdict(_Plane)

    def name_plane(self, plane: int, name: str) -> None:
        """Set the name of a plane."""
        self._need.add(_LINE_BYTES)
        self._planes[plane].name = name

    def name_line(self, plane: int, line: int, name: str) -> None:
        """Set the name of a line of a plane."""
        self._need.add(_LINE_BYTES)
        self._planes[plane].events[line]  # the line exists even without events
        self._planes[plane].line_names[line] = name

    def event(  # noqa: PLR0913 - the fields of an event
        self,
        place: tuple[int, int],
        name: str,
        start_ps: int,
        duration_ps: int,
        *,
        display_name: str = "",
        stats: Mapping[str, str | float],
    ) -> None:
        """Add an event. `place` is its plane and line. Times are from 0 to `LARGEST_PS`."""
        plane = self._planes[place[0]]
        line = plane.events[place[1]]
        name_id = plane.names.setdefault((name, display_name), len(plane.names))
        event = _number(1, name_id) + _number(2, start_ps) + _number(3, duration_ps)
        for stat, value in stats.items():
            event += _stat(plane.stats.setdefault(stat, len(plane.stats)), value)
        self._need.add(len(event) if line else len(event) + _LINE_BYTES)
        self.events += 1
        line += _message(4, event)

    def lose(self, lost_bytes: int) -> None:
        """Record that a part of the file could not be read."""
        self._lost_bytes += lost_bytes
        self._lost_places += 1

    def leave_out(self, plane: int) -> None:
        """Record that an event of a plane was left out because its time is impossible."""
        self._impossible += 1
        self._lacking.add(plane)

    def build(self) -> Trace:
        """Return the finished trace."""
        planes = (plane.message(number, self._origin_ns) for number, plane in self._planes.items())
        space = b"".join(_message(1, plane) for plane in planes)
        trace = xplane.decode(np.frombuffer(space, np.uint8), max_bytes=self._max_bytes)
        damage = Damage(
            bytes_lost=self._lost_bytes, places=self._lost_places, events_kept=self.events
        )
        return replace(
            trace,
            damage=damage if damage.places else None,
            format=self._format,
            impossible_events=self._impossible,
            emptied_planes=tuple(
                self._planes[number].name
                for number in sorted(self._lacking & self._planes.keys())
                if not any(self._planes[number].events.values())
            ),
        )


@lru_cache(maxsize=1 << 12, typed=True)  # most stats recur
def _stat(stat_id: int, value: str | float) -> bytes:
    """Return a stat as a serialized field of XEvent."""
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
    return _TAGS[field << 3 | VARINT] + encoded(value)


def _text(field: int, text: str) -> bytes:
    """Return a serialized text field. An unpaired surrogate becomes a question mark."""
    return _message(field, text.encode("utf-8", "replace"))


def _message(field: int, content: bytes) -> bytes:
    return _TAGS[field << 3 | LENGTH] + encoded(len(content)) + content
