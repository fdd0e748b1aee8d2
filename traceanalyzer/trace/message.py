"""Reads protobuf messages and encodes varints in Python, where that is fast enough."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5  # wire types
_FIXED_BYTES: Final = {FIXED64: 8, FIXED32: 4}
_LAST: Final = 0x80  # a byte below it is the last one of a varint
_MAX_SHIFT: Final = 63
_BITS: Final = 2**64 - 1
_MOST_FIELDS: Final = 1_000_000  # of a message; a node of a graph is one field
_EMPTY: Final = memoryview(b"")


class BrokenMessageError(Exception):
    """Raised if bytes are not a message. `cut_short` says whether they end too early."""

    def __init__(self, *, cut_short: bool = False) -> None:
        super().__init__()
        self.cut_short = cut_short


class Message:
    """The fields of a message by number. If a field has several values, the last one counts.

    Raises:
        BrokenMessageError: The bytes are not a message, or a field that is read does not have the
            expected type.
    """

    def __init__(self, data: int | bytes | memoryview) -> None:
        self.values: dict[int, list[int | memoryview]] = {}
        for count, (number, value, _) in enumerate(fields(as_bytes(data))):
            if count >= _MOST_FIELDS or not number:
                raise BrokenMessageError
            self.values.setdefault(number, []).append(value)

    def every(self, field: int) -> Sequence[int | memoryview]:
        """Return all values of a field."""
        return self.values.get(field, ())

    def number(self, field: int) -> int:
        """Return a field's unsigned number, or 0 if it is missing."""
        value = self.values.get(field, (0,))[-1]
        if not isinstance(value, int):
            raise BrokenMessageError
        return value

    def text(self, field: int) -> str:
        """Return a field's text, or "" if it is missing."""
        return as_text(self.values.get(field, (_EMPTY,))[-1])

    def message(self, field: int) -> Message:
        """Return a field's message, or an empty one if it is missing."""
        return Message(self.values.get(field, (_EMPTY,))[-1])


def fields(data: memoryview) -> Iterator[tuple[int, int | memoryview, int]]:
    """Yield the number, value, and end position of each field.

    The value of a varint is an unsigned number. Other values are bytes.

    Raises:
        BrokenMessageError: The bytes are not a message. Fields before the damage have been yielded.
    """
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        wire_type = tag & 7
        if wire_type == VARINT:
            number, at = varint(data, at)
            yield tag >> 3, number, at
            continue
        if wire_type == LENGTH:
            length, at = varint(data, at)
        elif wire_type in _FIXED_BYTES:
            length = _FIXED_BYTES[wire_type]
        else:
            raise BrokenMessageError
        begin, at = at, at + length
        if at > len(data):
            raise BrokenMessageError(cut_short=True)
        yield tag >> 3, data[begin:at], at


def varint(data: memoryview, at: int) -> tuple[int, int]:
    """Return the varint that begins at a position, and the position of its end."""
    if at < len(data) and (byte := data[at]) < _LAST:  # most numbers are small
        return byte, at + 1
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


def encoded(number: int) -> bytes:
    """Return a 64-bit number as a varint."""
    if 0 <= number < _LAST:  # most numbers are small
        return bytes((number,))
    rest, parts = number & _BITS, []
    while rest >= _LAST:
        parts.append(rest & 0x7F | _LAST)
        rest >>= 7
    parts.append(rest)
    return bytes(parts)


def as_bytes(value: int | bytes | memoryview) -> memoryview:
    """Return the value of a length-delimited field, or raise BrokenMessageError for a number."""
    if isinstance(value, int):
        raise BrokenMessageError
    return memoryview(value)


def as_text(value: int | bytes | memoryview) -> str:
    """Return the value of a text field, or raise BrokenMessageError for a number."""
    return str(as_bytes(value), "utf-8", "backslashreplace")
