"""Reads `local.trace`, the serialised `Trace` message that TensorFlow 2.0 and 2.1 saved.

Field numbers are those of `trace_events.proto` of that time. A device is a plane, a resource a
line. Ops are named by type alone: the op's own name was dropped before saving, and the type stands
for it, as in later versions for ops run eagerly. Their one argument, `label`, holds the step, the
assigned device and the executor's way of running them, which become stats of their own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from traceanalyzer.errors import TraceFormatError
from traceanalyzer.trace.builder import LARGEST_PS, PlaneBuilder, TraceBuilder
from traceanalyzer.trace.columns import Damage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.trace.columns import Trace

__all__ = ["decode"]

FORMAT: Final = "local.trace"

# TensorFlow wrote at most a million events, some hundred megabytes. Python takes about five
# seconds for each hundred.
MAX_BYTES: Final = 1 << 30

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_MAX_SHIFT: Final = 63
_DEVICES, _EVENTS = 1, 4  # fields of Trace
_KEY, _VALUE = 1, 2  # fields of a map's entry
_NAME, _RESOURCES = 1, 3  # fields of Device and Resource
_EVENT_DEVICE, _EVENT_RESOURCE, _EVENT_NAME = 1, 2, 3  # fields of TraceEvent
_TIMESTAMP_PS, _DURATION_PS, _ARGS = 9, 10, 11

_LABEL: Final = "label"
_OP_LABEL: Final = re.compile(r"id=(-?\d+),device=([^,]*),async=(\w+)")


def decode(data: bytes, *, max_bytes: int | None = None) -> Trace:
    """Decode the content of a `local.trace`.

    Args:
        data: The file.
        max_bytes: Refuse what would need more memory than this; None for no limit.

    Returns:
        The trace; its `damage` says what of the file could not be read.

    Raises:
        TraceFormatError: It is not such a file, or is cut short.
        TraceTooLargeError: It needs more memory than `max_bytes`.
    """
    if len(data) > MAX_BYTES:
        msg = (
            f"{len(data) / 1e6:,.0f} MB are more than TensorFlow 2.0 and 2.1 wrote into a "
            f"local.trace (limit {MAX_BYTES / 1e6:,.0f} MB); record anew"
        )
        raise TraceFormatError(msg)
    builder = TraceBuilder(FORMAT, max_bytes=max_bytes)
    devices: dict[int, _Device] = {}
    read = lost = places = 0
    try:
        for number, value, end in _top_level(data):
            try:
                if number == _DEVICES:
                    _read_device(builder, devices, _message(value))
                elif number == _EVENTS:
                    _read_event(builder, devices, _message(value))
            except _DamageError:
                lost += end - read
                places += 1
            read = end
    except _DamageError as damage:
        if damage.cut_short:
            msg = (
                f"the file is cut short: what begins at byte {read} goes on past its end "
                f"({len(data)} bytes); copy it again, or record anew"
            )
            raise TraceFormatError(msg) from None
        lost += len(data) - read
        places += 1
    if lost and not builder.events:
        msg = "this is not a local.trace: no event in it can be read; is it another kind of file?"
        raise TraceFormatError(msg)
    return builder.build(
        damage=Damage(bytes_lost=lost, places=places, events_kept=builder.events) if lost else None
    )


class _DamageError(Exception):
    """These bytes are no message."""

    def __init__(self, *, cut_short: bool = False) -> None:
        super().__init__()
        self.cut_short = cut_short


@dataclass(kw_only=True)
class _Device:
    """A plane in the making, and its lines by resource id."""

    plane: PlaneBuilder
    lines: dict[int, int] = field(default_factory=dict)

    def line(self, resource: int) -> int:
        if resource not in self.lines:
            self.lines[resource] = self.plane.line(resource)
        return self.lines[resource]


def _device(builder: TraceBuilder, devices: dict[int, _Device], number: int) -> _Device:
    if number not in devices:
        devices[number] = _Device(plane=builder.plane(plane_id=number))
    return devices[number]


def _read_device(builder: TraceBuilder, devices: dict[int, _Device], entry: bytes) -> None:
    key, content = _entry(entry)
    device = _device(builder, devices, key)
    for number, value in _fields(content):
        if number == _NAME:
            device.plane.name = _text(value)
        elif number == _RESOURCES:
            resource, inner = _entry(_message(value))
            name = next((_text(v) for n, v in _fields(inner) if n == _NAME), "")
            device.plane.name_line(device.line(resource), name)


def _read_event(builder: TraceBuilder, devices: dict[int, _Device], content: bytes) -> None:
    device = resource = start_ps = duration_ps = 0
    name = ""
    args: dict[str, str] = {}
    for number, value in _fields(content):
        if number == _EVENT_DEVICE:
            device = _number(value)
        elif number == _EVENT_RESOURCE:
            resource = _number(value)
        elif number == _EVENT_NAME:
            name = _text(value)
        elif number == _TIMESTAMP_PS:
            start_ps = _number(value)
        elif number == _DURATION_PS:
            duration_ps = _number(value)
        elif number == _ARGS:
            pair = dict(_fields(_message(value)))
            args[_text(pair.get(_KEY, b""))] = _text(pair.get(_VALUE, b""))
    if start_ps > LARGEST_PS or duration_ps > LARGEST_PS:
        raise _DamageError
    stats: dict[str, str | int | float] = {key: text for key, text in args.items() if text}
    display_name = ""
    if op := _OP_LABEL.fullmatch(args.get(_LABEL, "")):
        stats |= {"id": op[1], "device": op[2], "async": op[3]}
        name, display_name = f"{name}:{name}", name
    owner = _device(builder, devices, device)
    owner.plane.event(
        owner.line(resource), name, start_ps, duration_ps, display_name=display_name, stats=stats
    )


def _entry(entry: bytes) -> tuple[int, bytes]:
    """Return key and value of a map's entry, whose key is a number and value a message."""
    fields = dict(_fields(entry))
    return _number(fields.get(_KEY, 0)), _message(fields.get(_VALUE, b""))


def _top_level(data: bytes) -> Iterator[tuple[int, int | bytes, int]]:
    """Yield number, value and end of each field of the file."""
    at = 0
    while at < len(data):
        number, value, at = _field(data, at)
        yield number, value, at


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        number, value, at = _field(data, at)
        yield number, value


def _field(data: bytes, at: int) -> tuple[int, int | bytes, int]:
    tag, at = _varint(data, at)
    wire_type = tag & 7
    if wire_type == _VARINT:
        value, at = _varint(data, at)
        return tag >> 3, value, at
    if wire_type == _LENGTH:
        length, at = _varint(data, at)
    elif wire_type in {_FIXED64, _FIXED32}:
        length = 8 if wire_type == _FIXED64 else 4
    else:
        raise _DamageError
    end = at + length
    if end > len(data):
        raise _DamageError(cut_short=True)
    return tag >> 3, data[at:end], end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift <= _MAX_SHIFT:
        if at >= len(data):
            raise _DamageError(cut_short=True)
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the last byte of a varint
            return value & (2**64 - 1), at
        shift += 7
    raise _DamageError


def _number(value: int | bytes) -> int:
    if isinstance(value, bytes) or value > LARGEST_PS:
        raise _DamageError
    return value


def _message(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise _DamageError
    return value


def _text(value: int | bytes) -> str:
    return _message(value).decode("utf-8", "replace")
