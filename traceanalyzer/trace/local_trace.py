"""Reads `local.trace`, the serialized `Trace` message that TensorFlow 2.0 and 2.1 saved.

Field numbers are those of `trace_events.proto` at that time. A device becomes a plane, and a
resource becomes a line. Ops have only a type, which also becomes their name. The argument `label`
contains the step, the assigned device, and whether the op is asynchronous. Each becomes a stat.
"""

import re
from typing import Final

from traceanalyzer.errors import TraceFormatError
from traceanalyzer.trace.builder import LARGEST_PS, TraceBuilder
from traceanalyzer.trace.columns import Trace
from traceanalyzer.trace.message import BrokenMessageError, Message, fields

FORMAT: Final = "local.trace"

_DEVICES, _EVENTS = 1, 4  # fields of Trace
_KEY, _VALUE = 1, 2  # fields of a map's entry
_NAME, _RESOURCES = 1, 3  # fields of Device and Resource
_EVENT_DEVICE, _EVENT_RESOURCE, _EVENT_NAME = 1, 2, 3  # fields of TraceEvent
_TIMESTAMP_PS, _DURATION_PS, _ARGS = 9, 10, 11

_LABEL: Final = "label"
_OP_LABEL: Final = re.compile(r"id=(-?\d+),device=([^,]*),async=(\w+)")


def read(data: memoryview, *, max_bytes: int | None = None) -> Trace:
    """Read the content of a `local.trace`. `Trace.damage` describes unreadable parts.

    Raises:
        TraceFormatError: The content is not such a file, is too large, or is cut short.
        TraceTooLargeError: It needs more memory than `max_bytes`.
    """
    builder = TraceBuilder(FORMAT, len(data), max_bytes=max_bytes)
    read = 0
    try:
        for number, value, end in fields(data):
            try:
                if number == _DEVICES:
                    _read_device(builder, Message(value))
                elif number == _EVENTS:
                    _read_event(builder, Message(value))
            except BrokenMessageError:
                builder.lose(end - read)
            read = end
    except BrokenMessageError as damage:
        if damage.cut_short:
            msg = (
                f"the file is cut short: its {len(data):,} bytes end within the field that begins "
                f"at byte {read:,}; copy it again, or record again"
            )
            raise TraceFormatError(msg) from None
        builder.lose(len(data) - read)
    trace = builder.build()
    if trace.damage and not builder.events:
        msg = "this is not a local.trace: no event in it can be read; give the profiler's file"
        raise TraceFormatError(msg)
    return trace


def _read_device(builder: TraceBuilder, entry: Message) -> None:
    device = entry.message(_VALUE)
    plane = _number(entry, _KEY)
    builder.name_plane(plane, device.text(_NAME))
    for resource in map(Message, device.every(_RESOURCES)):
        name = resource.message(_VALUE).text(_NAME)
        builder.name_line(plane, _number(resource, _KEY), name)


def _read_event(builder: TraceBuilder, event: Message) -> None:
    args = {arg.text(_KEY): arg.text(_VALUE) for arg in map(Message, event.every(_ARGS))}
    name, display_name = event.text(_EVENT_NAME), ""
    if op := _OP_LABEL.fullmatch(args.get(_LABEL, "")):
        del args[_LABEL]
        args |= {"id": op[1], "device": op[2], "async": op[3]}
        name, display_name = f"{name}:{name}", name
    device, resource, start_ps, duration_ps = (
        _number(event, field)
        for field in (_EVENT_DEVICE, _EVENT_RESOURCE, _TIMESTAMP_PS, _DURATION_PS)
    )
    stats = {key: text for key, text in args.items() if text}
    place = device, resource
    builder.event(place, name, start_ps, duration_ps, display_name=display_name, stats=stats)


def _number(message: Message, field: int) -> int:
    if message.number(field) > LARGEST_PS:
        raise BrokenMessageError
    return message.number(field)
