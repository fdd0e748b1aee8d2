"""XSpaces as bytes: every encoding that protobuf's parser reads, for hypothesis, and by hand.

The strategies follow `tests.xspace_proto.MESSAGES`: fields in any order, repeated or absent, padded
varints, packed or not, unknown fields and known numbers with other types at every level.
"""

import struct
from collections.abc import Callable
from typing import Any, Final

from hypothesis import strategies as st

from tests.xspace_proto import MESSAGES

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5

# ------------------------------------------------------------------------- by hand


def varint(number: int, padding: int = 0) -> bytes:
    """A number as a varint, negative ones in ten bytes; `padding` more bytes than it needs."""
    number %= 2**64
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    for _ in range(min(padding, 10 - len(encoded))):
        encoded[-1] |= 0x80
        encoded.append(0)
    return bytes(encoded)


def tag(field: int, wire_type: int) -> bytes:
    return varint(field << 3 | wire_type)


def number(field: int, value: int) -> bytes:
    """A field with a whole number."""
    return tag(field, VARINT) + varint(value)


def message(field: int, *parts: bytes) -> bytes:
    """A field with bytes: a message, a text, a packed list."""
    content = b"".join(parts)
    return tag(field, LENGTH) + varint(len(content)) + content


def text(field: int, value: str) -> bytes:
    return message(field, value.encode())


# Of an XSpace: planes; of a plane: lines, metadata, names of stats; of a line: events ...
def plane(*parts: bytes) -> bytes:
    return message(1, *parts)


def line(*parts: bytes) -> bytes:
    return message(3, *parts)


def event(*parts: bytes) -> bytes:
    return message(4, *parts)


def stat(*parts: bytes) -> bytes:
    """A stat of an event."""
    return message(4, *parts)


def event_metadata(key: int, *parts: bytes) -> bytes:
    return message(4, number(1, key), message(2, *parts))


def stat_metadata(key: int, name: str) -> bytes:
    return message(5, number(1, key), message(2, text(2, name)))


def own_stat(*parts: bytes) -> bytes:
    """A stat of a plane."""
    return message(6, *parts)


# -------------------------------------------------------------------- by hypothesis

_EDGES = [0, 1, 127, 128, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, -1, -(2**31) - 1]

# Few small numbers, so that ids meet; and the edges of every width.
_NUMBERS = st.one_of(st.integers(0, 3), st.sampled_from(_EDGES), st.integers(-(2**63), 2**64 - 1))
_PADDINGS = st.sampled_from([0, 0, 0, 1, 9])
_TEXTS = st.one_of(st.sampled_from(["", "a", "b", "é"]), st.text(max_size=12)).map(str.encode)
_BYTES = st.binary(max_size=12)
_DOUBLES = st.floats(width=64).map(lambda number: struct.pack("<d", number))
_FIXED64 = st.binary(min_size=8, max_size=8)
_FIXED32 = st.binary(min_size=4, max_size=4)
# Numbers that no message has; the last is the largest there is.
_UNKNOWN = st.sampled_from([12, 15, 16, 1000, 18999, 2**29 - 1])
_WIRE_TYPES = {"int64": VARINT, "uint64": VARINT, "double": FIXED64}  # all others: LENGTH

Draw = Callable[[st.SearchStrategy[Any]], Any]


@st.composite
def messages(draw: Draw, name: str) -> bytes:
    """A message of `MESSAGES`."""
    fields = MESSAGES[name]
    # Messages come up eight times as often as other fields: they hold most of what can go wrong.
    choices = [
        field for field, (_, kind) in fields.items() for _ in range(8 if _contents(kind) else 2)
    ]
    parts = []
    for choice in draw(st.lists(st.sampled_from([*choices, None]), max_size=10)):
        if choice is None:
            parts.append(_any_field(draw, draw(_UNKNOWN), draw(st.sampled_from([0, 1, 2, 5]))))
            continue
        number, kind = fields[choice]
        right = _WIRE_TYPES.get(kind.rstrip("*"), LENGTH)
        if draw(st.integers(0, 15)) == 9:
            parts.append(
                _misread_field(draw, number, {VARINT, LENGTH} if kind == "int64*" else {right})
            )
        elif kind == "int64*" and draw(st.booleans()):
            packed = (_varint(draw) for _ in range(draw(st.integers(0, 4))))
            parts.append(tag(number, LENGTH) + _sized(draw, b"".join(packed)))
        else:
            parts.append(tag(number, right) + _value(draw, kind))
    return b"".join(parts)


def _contents(kind: str) -> str | None:
    """Name of the message that a field holds."""
    name = kind.strip("<>").rpartition(",")[2].rstrip("*")
    return name if name in MESSAGES else None


def _value(draw: Draw, kind: str) -> bytes:
    scalar = kind.rstrip("*")
    if scalar in {"int64", "uint64"}:
        return _varint(draw)
    if scalar == "double":
        return draw(_DOUBLES)
    if scalar in {"string", "bytes"}:
        return _sized(draw, draw(_TEXTS if scalar == "string" else _BYTES))
    name = _contents(kind)
    if not kind.startswith("<"):
        return _sized(draw, draw(messages(name)))
    # An entry of a map holds known fields alone: with others in it, the parser in C that protobuf's
    # Python package wraps drops the entry. The one that TensorFlow is built with keeps it.
    parts = [
        tag(1, VARINT) + _varint(draw)
        if key
        else tag(2, LENGTH) + _sized(draw, draw(messages(name)))
        for key in draw(st.sampled_from([[1, 0], [0, 1], [1], [0], [], [1, 0, 0], [1, 1, 0]]))
    ]
    return _sized(draw, b"".join(parts))


def _varint(draw: Draw) -> bytes:
    return varint(draw(_NUMBERS), draw(_PADDINGS))


def _sized(draw: Draw, content: bytes) -> bytes:
    return varint(len(content), draw(st.sampled_from([0, 0, 0, 0, 1]))) + content


def _any_field(draw: Draw, number: int, wire_type: int) -> bytes:
    match wire_type:
        case 0:
            value = _varint(draw)
        case 1:
            value = draw(_FIXED64)
        case 2:
            value = _sized(draw, draw(_BYTES))
        case _:
            value = draw(_FIXED32)
    return tag(number, wire_type) + value


def _misread_field(draw: Draw, number: int, right: set[int]) -> bytes:
    """A known field with a type it does not have, which makes it unknown."""
    wrong = sorted({VARINT, FIXED64, LENGTH, FIXED32} - right)
    return _any_field(draw, number, draw(st.sampled_from(wrong)))


XSPACES: Final = messages("XSpace")
