"""Reads the JSON for Chrome's trace viewer that TensorFlow 2.2 to 2.10 saved beside the XSpace.

The timelines of TensorFlow 1's sessions are the same format with other names: see `run_timeline`.

A process is a plane, and a thread is a line. Times are in microseconds; arguments are strings. Op
events are named by op type; `args.long_name` has the op's name. The list ends with an empty object.
The format lacks events without duration, such as allocations.

Events are decoded one by one, so that they are never all in memory as objects. Times are decoded as
decimals: a picosecond is the sixth decimal place. Times since 1970 do not fit into 64 bits of
picoseconds, so that a first pass finds when the trace begins.
"""

import re
from array import array
from dataclasses import replace
from decimal import Decimal
from typing import Annotated, Any, Final, TypeAlias

import msgspec
import numpy as np

from traceanalyzer.errors import TraceFormatError
from traceanalyzer.trace.builder import LARGEST_PS, TraceBuilder, check_size
from traceanalyzer.trace.clock import LONGEST_PS
from traceanalyzer.trace.columns import Trace
from traceanalyzer.trace.run_timeline import FORMAT as TIMELINE
from traceanalyzer.trace.run_timeline import RunTimeline
from traceanalyzer.units import NS_PER_US, PS_PER_US

FORMAT: Final = "trace.json"

_US_DIGITS: Final = 19  # of the integer part of a time, at most
_LARGEST_US: Final = LARGEST_PS / PS_PER_US  # that fits into 64 bits of picoseconds
_LAST_US: Final = 2**63 / NS_PER_US  # that an XSpace can begin at
_LONGEST_US: Final = LONGEST_PS / PS_PER_US
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


_NO_ELEMENT: Final = _Element()


class _Head(msgspec.Struct):
    ph: str = ""
    pid: _Id | None = None
    name: str = ""
    ts: Decimal | None = None
    args: msgspec.Raw = msgspec.Raw(b"{}")


class _Name(msgspec.Struct):
    name: str = ""


_file: Final = msgspec.json.Decoder(_File)
_element: Final = msgspec.json.Decoder(_Element)
_head: Final = msgspec.json.Decoder(_Head)
_name: Final = msgspec.json.Decoder(_Name)


def read(data: memoryview, *, max_bytes: int | None = None) -> Trace:
    """Read a trace. `Trace.damage` describes elements that cannot be read.

    Raises:
        TraceFormatError: It is not a TensorFlow trace, is too large, damaged, or cut short.
        TraceTooLargeError: It needs more memory than `max_bytes`.
    """
    check_size(FORMAT, len(data))
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
    processes, origin_us = _overview(elements)
    timeline = RunTimeline(processes)
    origin_ns = origin_us * NS_PER_US
    builder = TraceBuilder(
        TIMELINE if timeline else FORMAT, max_bytes=max_bytes, origin_ns=origin_ns
    )
    timeline.name_planes(builder)
    for raw in elements:
        element = _NO_ELEMENT
        try:
            element = _element.decode(raw)
            _add(builder, timeline, element, origin_us)
        except OverflowError:
            builder.leave_out(element.pid or 0)
        except (msgspec.DecodeError, ValueError, RecursionError):
            builder.lose(memoryview(raw).nbytes)
    trace = replace(builder.build(), is_one_run=timeline.is_one_run)
    if (
        trace.events
        and not timeline
        and not any(_PLANE.fullmatch(plane.name) for plane in trace.planes)
    ):
        msg = (
            "this is a trace of another program: no process has a name that TensorFlow uses "
            "(/host:CPU, /device:GPU:0); pass a trace from TensorFlow's profiler"
        )
        raise TraceFormatError(msg)
    return trace


def _overview(elements: list[msgspec.Raw]) -> tuple[dict[int, str], int]:
    """Return the names of processes, and when the trace begins, in whole microseconds.

    That is 0 if most times fit into 64 bits of picoseconds.
    """
    processes: dict[int, str] = {}
    times_us = array("d")
    for raw in elements:
        try:
            head = _head.decode(raw)
            if head.ph == "M" and head.name == "process_name":
                processes[head.pid or 0] = _name.decode(head.args).name
            elif head.ph in _EVENTS and head.ts is not None and head.ts.adjusted() < _US_DIGITS:
                times_us.append(float(head.ts))
        except (msgspec.DecodeError, ValueError, RecursionError):
            continue
    found = np.array(times_us)
    found = found[(found >= 0) & (found < _LAST_US)]
    middle = float(np.sort(found)[(len(found) - 1) // 2]) if len(found) else 0.0
    if middle <= _LARGEST_US:
        return processes, 0
    return processes, int(found[np.abs(found - middle) <= _LONGEST_US / 2].min())


def _add(builder: TraceBuilder, timeline: RunTimeline, element: _Element, origin_us: int) -> None:
    """Add an element of the list. Flows, counters, and the empty last element are ignored.

    Raises:
        ValueError: Its time is missing.
        OverflowError: Its time is impossible.
    """
    plane, line, name, args = element.pid or 0, element.tid or 0, element.name, element.args
    if element.ph == "M":
        given = args.get("name")
        if plane in timeline:
            return
        if name == "process_name" and isinstance(given, str):
            known = _PLANE.fullmatch(given)
            builder.name_plane(plane, known[1] if known else given)
        elif name == "thread_name" and isinstance(given, str):
            builder.name_line(plane, line, given)
    elif element.ph in _EVENTS:
        start_ps = _picoseconds(element.ts, origin_us)
        duration_ps = _picoseconds(element.dur)
        if plane in timeline:
            timeline.add(builder, plane, line, start_ps, duration_ps, args)
            return
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


def _picoseconds(us: Decimal | None, origin_us: int = 0) -> int:
    """Convert microseconds to whole picoseconds, or raise ValueError or OverflowError."""
    if us is None:
        raise ValueError
    # Check it before the conversion: 1e999999999 would take up all memory as an integer.
    if not us.is_finite() or us.adjusted() >= _US_DIGITS:
        raise OverflowError
    ps = round((us - origin_us) * PS_PER_US)
    if not 0 <= ps <= LARGEST_PS:
        raise OverflowError
    return ps
