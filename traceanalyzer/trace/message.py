"""Reads protobuf messages in plain Python, where that is fast enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5  # wire types
_LAST: Final = 0x80  # a byte below it is the last one of a varint
_MAX_SHIFT: Final = 63
_BITS: Final = 2**64 - 1


class BrokenMessageError(Exception):
    """These bytes are not a message; `cut_short` says whether it continues past their end."""

    def __init__(self, *, cut_short: bool = False) -> None:
        super().__init__()
        self.cut_short = cut_short


def fields(data: memoryview) -> Iterator[tuple[int, int | memoryview, int]]:
    """Yield number, value, and end of each field.

    A value is an unsigned number for a varint, otherwise the bytes.

    Raises:
        BrokenMessageError: The bytes are not a message; fields before the damage were yielded.
    """
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        wire_type = tag & 7
        value: int | memoryview
        if wire_type == VARINT:
            value, at = varint(data, at)
        else:
            if wire_type == LENGTH:
                length, at = varint(data, at)
            elif wire_type in {FIXED64, FIXED32}:
                length = 8 if wire_type == FIXED64 else 4
            else:
                raise BrokenMessageError
            end = at + length
            if end > len(data):
                raise BrokenMessageError(cut_short=True)
            value, at = data[at:end], end
        yield tag >> 3, value, at


def varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return the number that begins at a byte and the position of its end."""
    value = shift = 0
    while shift <= _MAX_SHIFT:
        if at >= len(data):
            raise BrokenMessageError(cut_short=True)
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < _LAST:
            return value & _BITS, at
        shift += 7
    raise BrokenMessageError


def as_bytes(value: int | memoryview) -> memoryview:
    """Return the value of a field that should be a message, a text or bytes."""
    if isinstance(value, int):
        raise BrokenMessageError
    return value


def as_number(value: int | memoryview) -> int:
    """Return the value of a field that should be a number."""
    if not isinstance(value, int):
        raise BrokenMessageError
    return value


def as_text(value: int | memoryview) -> str:
    """Return the value of a field that should be a text."""
    return str(as_bytes(value), "utf-8", "backslashreplace")
