"""Reads the JSON for Chrome's trace viewer that TensorFlow 2.2 to 2.10 saved beside the XSpace.

A process is a plane, and a thread is a line. Times are in microseconds; arguments are strings. Op
events are named by op type; `args.long_name` has the op's name. The list ends with an empty object.
The format lacks events without duration, such as allocations.

Events are decoded one by one, so that they are never all in memory as objects. Times are decoded as
decimals: a picosecond is the sixth decimal place.
"""

import re
from decimal import Decimal
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from traceanalyzer.errors import TraceFormatError
from traceanalyzer.trace.builder import LARGEST_PS, TraceBuilder
from traceanalyzer.trace.columns import Trace
from traceanalyzer.units import PS_PER_US

FORMAT: Final = "trace.json"

_US_DIGITS: Final = 13  # of the integer part of a time that fits into 64 bits of picoseconds
_EVENTS: Final = frozenset({"X", "i", "I"})  # complete and instant ones
# Names of planes, with or without a host prefix, that TensorFlow's and JAX's profilers write.
_PLANE: Final = re.compile(r"(?:\S+ )?(/(?:host|device):.*|#Chip.*|Task Environment)", re.DOTALL)
_Id: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _File(msgspec.Struct):
    elements: list[msgspec.Raw] = msgspec.field(name="traceEvents")


class _Element(msgspec.Struct):
    ph: str = ""  #: the kind
    pid: _Id | None = None
    tid: _Id | None = None
    name: str = ""
    ts: Decimal | None = None
    dur: Decimal = Decimal(0)
    args: dict[str, Any] = {}


_file: Final = msgspec.json.Decoder(_File)
_element: Final = msgspec.json.Decoder(_Element)


def read(data: memoryview, *, max_bytes: int | None = None) -> Trace:
    """Read a trace. `Trace.damage` describes elements that cannot be read.

    Raises:
        TraceFormatError: It is not a TensorFlow trace, is too large, damaged, or cut short.
        TraceTooLargeError: It needs more memory than `max_bytes`.
    """
    builder = TraceBuilder(FORMAT, len(data), max_bytes=max_bytes)
    try:
        elements = _file.decode(data).elements
    except msgspec.ValidationError:
        msg = (
            "this is JSON but not a trace: it has no `traceEvents` list; give HOST.trace.json.gz "
            "or HOST.xplane.pb"
        )
        raise TraceFormatError(msg) from None
    except (msgspec.DecodeError, RecursionError) as error:
        msg = f"the JSON is cut short or damaged ({error}); copy it again, or record again"
        raise TraceFormatError(msg) from None
    for raw in elements:
        try:
            _add(builder, _element.decode(raw))
        except (msgspec.DecodeError, ValueError, RecursionError):
            builder.lose(memoryview(raw).nbytes)
    trace = builder.build()
    if trace.events and not any(_PLANE.fullmatch(plane.name) for plane in trace.planes):
        msg = (
            "this is a trace of another program: no process has a name that TensorFlow uses "
            "(/host:CPU, /device:GPU:0); pass a trace from TensorFlow's profiler"
        )
        raise TraceFormatError(msg)
    return trace


def _add(builder: TraceBuilder, element: _Element) -> None:
    """Add an element of the list. Flows, counters, and the empty last element are ignored.

    Raises:
        ValueError: Its time is missing or impossible.
    """
    plane, line, name, args = element.pid or 0, element.tid or 0, element.name, element.args
    if element.ph == "M":
        given = args.get("name")
        if name == "process_name" and isinstance(given, str):
            known = _PLANE.fullmatch(given)
            builder.name_plane(plane, known[1] if known else given)
        elif name == "thread_name" and isinstance(given, str):
            builder.name_line(plane, line, given)
    elif element.ph in _EVENTS:
        start_ps, duration_ps = _picoseconds(element.ts), _picoseconds(element.dur)
        long_name, display_name = args.pop("long_name", None), ""
        if isinstance(long_name, str):
            name, display_name = long_name, name
        elif args.get("step_name") == name:
            # The event begins a step; TF 2.4 added the step's number.
            kind, _, number = name.rpartition(" ")
            name = kind if kind and number.isdecimal() else name
        stats = {k: v for k, v in args.items() if isinstance(v, str | int | float)}
        place = plane, line
        builder.event(place, name, start_ps, duration_ps, display_name=display_name, stats=stats)


def _picoseconds(us: Decimal | None) -> int:
    """Convert microseconds to whole picoseconds, or raise ValueError."""
    # Check it before the conversion: 1e999999999 would take up all memory as an integer.
    if us is None or not us.is_finite() or us.adjusted() >= _US_DIGITS:
        raise ValueError
    ps = round(us * PS_PER_US)
    if not 0 <= ps <= LARGEST_PS:
        raise ValueError
    return ps
