"""Reads the JSON for Chrome's trace viewer that TensorFlow 2.2 to 2.10 saved beside the xplane.

A process is a plane, a thread a line, times are microseconds, arguments are texts. Op events are
named by type, with the name that the xplane has in `args.long_name`. The list ends with an empty
object. The format lacks events without duration, such as allocations, and some stats.

Read piece by piece, an event at a time, so that neither the text nor its objects are in memory
whole. Times are read as decimals: a picosecond is the sixth place of a number of up to 17 digits.
"""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Final, TypeAlias

from traceanalyzer.errors import TraceFormatError
from traceanalyzer.trace.builder import LARGEST_PS, TraceBuilder
from traceanalyzer.trace.columns import Damage
from traceanalyzer.trace.inflate import DamagedGzipError
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from traceanalyzer.trace.columns import Trace


Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | Decimal | bool | None"

FORMAT: Final = "trace.json"

# An event takes some hundred bytes; what is longer is damage or not an event, and is not read on
# to the end of the file in the hope of a closing bracket.
MAX_ELEMENT: Final = 4 << 20

_EVENTS_KEY: Final = "traceEvents"
_US_DIGITS: Final = 13  # of the whole part of a time that fits 64 bits of picoseconds
_COMPLETE, _METADATA, _INSTANT = "X", "M", frozenset({"i", "I"})
# Names of planes, perhaps after a host's: what TensorFlow's and JAX's profilers write.
_PLANE: Final = re.compile(r"(?:\S+ )?(/(?:host|device):.*|#Chip.*|Task Environment)", re.DOTALL)
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_exact: Final = json.JSONDecoder(parse_float=Decimal, parse_constant=lambda _: None).raw_decode
_rough: Final = json.JSONDecoder(parse_constant=lambda _: None).raw_decode


def read(pieces: Iterable[bytes], *, max_bytes: int | None = None) -> Trace:
    """Read a trace from the decompressed pieces of a file.

    `Trace.damage` says what could not be read.

    Raises:
        TraceFormatError: It is not a trace of TensorFlow, or is cut short.
        TraceTooLargeError: It needs more memory than `max_bytes`.
    """
    text = _Text(iter(pieces))
    reading = _Reading(TraceBuilder(FORMAT, max_bytes=max_bytes))
    try:
        found = _read_document(text, reading)
    except _BrokenTextError as broken:
        if broken.cut_short:
            msg = (
                f"the JSON is cut short: it ends after {text.bytes_read:,} bytes in the middle of "
                "the list of events; copy it again, or record again"
            )
            raise TraceFormatError(msg) from None
        if not reading.builder.events:
            msg = (
                f"the JSON is damaged at byte {text.position_bytes():,}, before the first event; "
                "copy it again, or record again"
            )
            raise TraceFormatError(msg) from None
        found = True
        reading.lost_bytes += text.left_bytes()
        reading.lost_places += 1
    if not found:
        msg = (
            "this is JSON but not a trace: it has no list `traceEvents`; give HOST.trace.json.gz "
            "or HOST.xplane.pb"
        )
        raise TraceFormatError(msg)
    rest = text.left_bytes()
    reading.lost_bytes += rest
    reading.lost_places += rest > 0
    return reading.finish()


class _BrokenTextError(Exception):
    """The text stops being JSON."""

    def __init__(self, *, cut_short: bool) -> None:
        super().__init__()
        self.cut_short = cut_short


class _Text:
    """The part of the text that is being read, and what follows it."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self.bytes_read = 0
        self._pieces = pieces
        self._characters = codecs.getincrementaldecoder("utf-8")("replace")
        self._window = ""
        self._at = 0
        self._ended = False
        self._lost_bytes = 0  # of the compressed file
        if self.next_character() == "\ufeff":
            self._at += 1

    def next_character(self) -> str:
        """Step over white space; return the character that follows, empty at the end."""
        while True:
            match = _SPACE.match(self._window, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._window):
                return self._window[self._at]
            if not self._more():
                return ""

    def accept(self, character: str) -> bool:
        """Step over white space and this character, if it is the one that follows."""
        if self.next_character() != character:
            return False
        self._at += 1
        return True

    def expect(self, character: str) -> None:
        """Step over white space and this character."""
        if not self.accept(character):
            raise _BrokenTextError(cut_short=self._is_cut_short(self._at))

    def value(self) -> tuple[Json, int]:
        """Read a JSON value; return it and its length in characters."""
        self.next_character()
        while True:
            try:
                value, end = _decode(self._window, self._at)
            except (ValueError, RecursionError) as error:
                # Perhaps it is only not all there yet.
                if len(self._window) - self._at < MAX_ELEMENT and self._more():
                    continue
                at = error.pos if isinstance(error, json.JSONDecodeError) else self._at
                unterminated = "Unterminated" in str(error)
                raise _BrokenTextError(
                    cut_short=self._is_cut_short(len(self._window) if unterminated else at)
                ) from None
            # A number at the end of the window may go on after it.
            if end == len(self._window) and self._more():
                continue
            length = end - self._at
            self._at = end
            return value, length

    def position_bytes(self) -> int:
        """Return how many bytes of the text precede what is read next."""
        return self.bytes_read - _size(self._window[self._at :])

    def left_bytes(self) -> int:
        """Read to the end; return how many bytes, white space aside, were left."""
        left = 0
        while self.next_character():
            left += _size(self._window[self._at :])
            self._at = len(self._window)
        lost, self._lost_bytes = self._lost_bytes, 0
        return left + lost

    def _is_cut_short(self, at: int) -> bool:
        return self._ended and not self._lost_bytes and at >= len(self._window)

    def _more(self) -> bool:
        """Read another piece; return whether there was one."""
        if self._ended:
            return False
        try:
            piece = next(self._pieces, b"")
        except DamagedGzipError as error:
            if not error.bytes_lost:
                raise
            piece, self._lost_bytes = b"", error.bytes_lost
        self._ended = not piece
        self.bytes_read += len(piece)
        self._window = self._window[self._at :] + self._characters.decode(piece, final=self._ended)
        self._at = 0
        return not self._ended or bool(self._window)


def _decode(text: str, at: int) -> tuple[Json, int]:
    try:
        return _exact(text, at)
    except ArithmeticError:
        # An exponent beyond what Decimal holds is infinite as a float, and no time: see below.
        return _rough(text, at)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _read_document(text: _Text, reading: _Reading) -> bool:
    """Read the document; return whether it has a list of events."""
    if text.next_character() == "[":
        _read_events(text, reading)
        return True
    text.expect("{")
    found = False
    if text.accept("}"):
        return False
    while True:
        key, _ = text.value()
        text.expect(":")
        if key == _EVENTS_KEY and text.next_character() == "[":
            _read_events(text, reading)
            found = True
        else:
            text.value()
        if not text.accept(","):
            break
    text.expect("}")
    return found


def _read_events(text: _Text, reading: _Reading) -> None:
    text.expect("[")
    if text.accept("]"):
        return
    while True:
        element, length = text.value()
        if not reading.add(element):
            reading.lost_bytes += length
            reading.lost_places += 1
        if not text.accept(","):
            break
    text.expect("]")


class _Reading:
    """What was read so far."""

    def __init__(self, builder: TraceBuilder) -> None:
        self.builder = builder
        self.lost_bytes = 0
        self.lost_places = 0
        self._is_tensorflow = False
        self._unread_phases: Counter[str] = Counter()

    def add(self, element: Json) -> bool:
        """Take in one element of the list; return whether it could be read."""
        if not isinstance(element, dict):
            return False
        if not element:
            return True  # the last one
        phase = element.get("ph")
        if phase == _METADATA:
            return self._name(element)
        if phase == _COMPLETE or (isinstance(phase, str) and phase in _INSTANT):
            return self._event(element)
        if isinstance(phase, str) and phase:
            self._unread_phases[phase[:1]] += 1
            return True
        return False

    def finish(self) -> Trace:
        """Return the trace."""
        if self.builder.events and not self._is_tensorflow:
            msg = (
                "this is a trace of another program: no process has a name that TensorFlow gives "
                "(/host:CPU, /device:GPU:0); give a trace of TensorFlow's profiler"
            )
            raise TraceFormatError(msg)
        kinds = ", ".join(f"{n:,} of kind {phase!r}" for phase, n in self._unread_phases.items())
        return self.builder.build(
            damage=Damage(
                bytes_lost=self.lost_bytes,
                places=self.lost_places,
                events_kept=self.builder.events,
            )
            if self.lost_places
            else None,
            warnings=(f"entries that are not events with a duration were left out: {kinds}",)
            if kinds
            else (),
        )

    def _name(self, element: dict[str, Json]) -> bool:
        pid, tid, args = _key(element.get("pid")), _key(element.get("tid")), element.get("args")
        if pid is None or not isinstance(args, dict):
            return False
        name = args.get("name")
        what = element.get("name")
        if what == "process_name" and isinstance(name, str):
            plane = _PLANE.fullmatch(name)
            self._is_tensorflow = self._is_tensorflow or plane is not None
            self.builder.plane(pid).name = plane[1] if plane else name
        elif what == "thread_name" and isinstance(name, str) and tid is not None:
            process = self.builder.plane(pid)
            process.name_line(process.line(tid), name)
        return True  # orders of display and the like say nothing about the run

    def _event(self, element: dict[str, Json]) -> bool:
        pid, tid, name = _key(element.get("pid")), _key(element.get("tid")), element.get("name")
        start_ps = _picoseconds(element.get("ts"))
        duration_ps = _picoseconds(element.get("dur", 0))
        args = element.get("args", {})
        if (
            pid is None
            or tid is None
            or start_ps is None
            or duration_ps is None
            or not isinstance(name, str)
            or not isinstance(args, dict)
        ):
            return False
        process = self.builder.plane(pid)
        long_name = args.pop("long_name", None)
        display_name = ""
        if isinstance(long_name, str):
            name, display_name = long_name, name
        elif args.get("step_name") == name:
            name = _without_step(name)
        process.event(
            process.line(tid),
            name,
            start_ps,
            duration_ps,
            display_name=display_name,
            stats={k: s for k, v in args.items() if (s := _stat(v)) is not None},
        )
        return True


def _key(value: Json) -> int | str | None:
    """Return the id of a process or thread: a number, or a text in other programs' traces."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    return value if isinstance(value, str) or -(2**63) <= value < 2**63 else None


def _without_step(name: str) -> str:
    """Return the name of an event that begins a step, without the number that TF 2.4 added."""
    kind, _, number = name.rpartition(" ")
    return kind if kind and number.isdecimal() else name


def _picoseconds(value: Json) -> int | None:
    """Return microseconds as whole picoseconds, None where that is no time."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    # Looked at before it is converted: 1e999999999 would take up all memory as an integer.
    if isinstance(value, Decimal) and (not value.is_finite() or value.adjusted() >= _US_DIGITS):
        return None
    ps = round(value * PS_PER_US)
    return ps if 0 <= ps <= LARGEST_PS else None


def _stat(value: Json) -> str | int | float | None:
    """Return an argument as a stat; nested ones, which TensorFlow does not write, as JSON."""
    if isinstance(value, Decimal):
        return float(value)
    if value is None or isinstance(value, str | int):
        return value
    return json.dumps(value, default=float)
