"""Reads and writes protobuf messages in plain Python, where that is fast enough."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator


_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_MAX_SHIFT: Final = 63
_BITS: Final = 2**64 - 1


class BrokenMessageError(Exception):
    """These bytes are no message.

    Attributes:
        cut_short: Whether it goes on past the end of the bytes.
    """

    def __init__(self, *, cut_short: bool = False) -> None:
        """Keep the reason."""
        super().__init__()
        self.cut_short = cut_short


def fields(data: memoryview) -> Iterator[tuple[int, int | memoryview, int]]:
    """Walk the fields of a message.

    Args:
        data: The message.

    Yields:
        Number, value (an unsigned number for a varint, otherwise the bytes) and end of each field.

    Raises:
        BrokenMessageError: The bytes are no message; fields before the damage were yielded.
    """
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        wire_type = tag & 7
        value: int | memoryview
        if wire_type == _VARINT:
            value, at = _varint(data, at)
        else:
            if wire_type == _LENGTH:
                length, at = _varint(data, at)
            elif wire_type in {_FIXED64, _FIXED32}:
                length = 8 if wire_type == _FIXED64 else 4
            else:
                raise BrokenMessageError
            end = at + length
            if end > len(data):
                raise BrokenMessageError(cut_short=True)
            value, at = data[at:end], end
        yield tag >> 3, value, at


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift <= _MAX_SHIFT:
        if at >= len(data):
            raise BrokenMessageError(cut_short=True)
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the last byte of a varint
            return value & _BITS, at
        shift += 7
    raise BrokenMessageError


def number_field(field: int, value: int) -> bytes:
    """Return a field that holds a number."""
    return bytes((field << 3 | _VARINT, *_varint_of(value & _BITS)))


def text_field(field: int, text: str) -> bytes:
    """Return a field that holds a string; half a surrogate pair becomes a question mark."""
    return message_field(field, text.encode("utf-8", "replace"))


def message_field(field: int, content: bytes) -> bytes:
    """Return a field that holds bytes, such as a message."""
    return bytes((field << 3 | _LENGTH, *_varint_of(len(content)))) + content


def double_field(field: int, value: float) -> bytes:
    """Return a field that holds a floating-point number."""
    return bytes((field << 3 | _FIXED64,)) + struct.pack("<d", value)


def _varint_of(value: int) -> list[int]:
    out = []
    while value > 0x7F:  # noqa: PLR2004 - seven bits a byte
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return out
