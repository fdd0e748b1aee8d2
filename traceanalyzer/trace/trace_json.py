"""Reads the JSON for Chrome's trace viewer that TensorFlow 2.2 to 2.10 saved beside the XSpace.

A process is a plane, and a thread is a line. Times are in microseconds; arguments are strings. Op
events are named by op type; `args.long_name` has the op's name. The list ends with an empty object.
The format lacks events without duration, such as allocations.

Events are parsed one by one, so that they are never all in memory as objects. Times are read as
decimals: a picosecond is the sixth decimal place.
"""

import json
import re
from decimal import Decimal
from typing import Final, TypeAlias

from traceanalyzer.errors import TraceFormatError
from traceanalyzer.trace.builder import LARGEST_PS, TraceBuilder
from traceanalyzer.trace.columns import Trace
from traceanalyzer.units import PS_PER_US

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | Decimal | bool | None"

FORMAT: Final = "trace.json"

_US_DIGITS: Final = 13  # of the integer part of a time that fits into 64 bits of picoseconds
_EVENTS: Final = frozenset({"X", "i", "I"})  # complete and instant ones
# Names of planes, with or without a host prefix, that TensorFlow's and JAX's profilers write.
_PLANE: Final = re.compile(r"(?:\S+ )?(/(?:host|device):.*|#Chip.*|Task Environment)", re.DOTALL)
_LIST: Final = re.compile(r'\A\ufeff?\s*\[|"traceEvents"\s*:\s*\[')
_BETWEEN: Final = re.compile(r"[ \t\r\n]*([,\]]?)[ \t\r\n]*")
_decode: Final = json.JSONDecoder(parse_float=Decimal, parse_constant=lambda _: None).raw_decode


def read(data: memoryview, *, max_bytes: int | None = None) -> Trace:
    """Read a trace. `Trace.damage` describes unreadable parts.

    Raises:
        TraceFormatError: It is not a TensorFlow trace, is too large, or is cut short.
        TraceTooLargeError: It needs more memory than `max_bytes`.
    """
    builder = TraceBuilder(FORMAT, len(data), max_bytes=max_bytes)
    text = str(data, "utf-8", "replace")
    begin = _LIST.search(text)
    if begin is None:
        msg = (
            "this is JSON but not a trace: it has no `traceEvents` list; give HOST.trace.json.gz "
            "or HOST.xplane.pb"
        )
        raise TraceFormatError(msg)
    damage = _read_events(text, begin.end(), builder)
    if damage is not None:
        at, broken = damage
        msg = ""
        if broken >= len(text):
            msg = (
                f"the JSON is cut short: it ends after {len(data):,} bytes in the middle of the "
                "list of events"
            )
        elif not builder.events:
            msg = f"the JSON is damaged at byte {_size(text[:broken]):,}, before the first event"
        if msg:
            msg += "; copy it again, or record again"
            raise TraceFormatError(msg)
        builder.lose(_size(text[at:]))
    trace = builder.build()
    if trace.events and not any(_PLANE.fullmatch(plane.name) for plane in trace.planes):
        msg = (
            "this is a trace of another program: no process has a name that TensorFlow uses "
            "(/host:CPU, /device:GPU:0); pass a trace from TensorFlow's profiler"
        )
        raise TraceFormatError(msg)
    return trace


def _read_events(text: str, at: int, builder: TraceBuilder) -> tuple[int, int] | None:
    """Read the list from `at` on. Return where damage begins and where it was found, or None."""
    between = _BETWEEN.match(text, at)
    while between is not None and between[1] != "]":
        at = between.end()
        try:
            element, end = _decode(text, at)
        except (ValueError, ArithmeticError, RecursionError) as error:
            broken = error.pos if isinstance(error, json.JSONDecodeError) else at
            return at, len(text) if "Unterminated" in str(error) else broken
        try:
            _add(builder, element)
        except ValueError:
            builder.lose(_size(text[at:end]))
        between = _BETWEEN.match(text, end)
        if between is not None and not between[1]:
            return end, between.end()
    return None


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _add(builder: TraceBuilder, element: Json) -> None:
    """Add an element of the list. Flows, counters, and the empty last element are ignored.

    Raises:
        ValueError: The element cannot be read.
    """
    phase = element.get("ph") if isinstance(element, dict) else None
    if not isinstance(element, dict) or (element and not (phase and isinstance(phase, str))):
        raise ValueError
    if phase == "M":
        _name(builder, element)
    elif phase in _EVENTS:
        _event(builder, element)


def _name(builder: TraceBuilder, element: dict[str, Json]) -> None:
    pid, what, args = _key(element.get("pid")), element.get("name"), element.get("args")
    if not isinstance(args, dict):
        raise ValueError  # noqa: TRY004 - as for other values
    name = args.get("name")
    if what == "process_name" and isinstance(name, str):
        plane = _PLANE.fullmatch(name)
        builder.name_plane(pid, plane[1] if plane else name)
    elif what == "thread_name" and isinstance(name, str):
        builder.name_line(pid, _key(element.get("tid")), name)


def _event(builder: TraceBuilder, element: dict[str, Json]) -> None:
    place = _key(element.get("pid")), _key(element.get("tid"))
    start_ps, duration_ps = _picoseconds(element.get("ts")), _picoseconds(element.get("dur", 0))
    name, args = element.get("name"), element.get("args", {})
    if not isinstance(name, str) or not isinstance(args, dict):
        raise ValueError  # noqa: TRY004 - as for other values
    long_name = args.pop("long_name", None)
    display_name = ""
    if isinstance(long_name, str):
        name, display_name = long_name, name
    elif args.get("step_name") == name:
        # The event begins a step; TF 2.4 added the step's number.
        kind, _, number = name.rpartition(" ")
        name = kind if kind and number.isdecimal() else name
    stats = {k: s for k, v in args.items() if (s := _stat(v)) is not None}
    builder.event(place, name, start_ps, duration_ps, display_name=display_name, stats=stats)


def _key(value: Json) -> int:
    """Return the id of a process or thread (0 if missing), or raise ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | None):
        raise ValueError  # noqa: TRY004 - as for other values
    if value is not None and not -(2**63) <= value < 2**63:
        raise ValueError
    return value or 0


def _picoseconds(value: Json) -> int:
    """Convert microseconds to whole picoseconds, or raise ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise ValueError  # noqa: TRY004 - as for other values
    # Check it before the conversion: 1e999999999 would take up all memory as an integer.
    if isinstance(value, Decimal) and (not value.is_finite() or value.adjusted() >= _US_DIGITS):
        raise ValueError
    ps = round(value * PS_PER_US)
    if not 0 <= ps <= LARGEST_PS:
        raise ValueError
    return ps


def _stat(value: Json) -> str | int | float | None:
    """Return an argument as a stat. Nested values, which TensorFlow does not write, become JSON."""
    if isinstance(value, Decimal):
        return float(value)
    if value is None or isinstance(value, str | int):
        return value
    return json.dumps(value, default=float)
