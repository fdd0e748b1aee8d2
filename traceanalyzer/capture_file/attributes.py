"""Attributes of ops, from protobuf's wire format to the capture file's values.

Field and type numbers are those of attr_value.proto, tensor.proto, tensor_shape.proto and
types.proto in TensorFlow's `core/framework`.

The values of attributes: a type is plain text, TensorFlow's DataType in lower case without `DT_`
("float", "int32", "resource", "float_ref"); int, float, bool as such; a list a list; a string
{"s": text}, cut after 1000 characters; a shape {"shape": [size, -1 if unknown] or null for an
unknown rank}; a tensor {"tensor": type, "shape": ...}, never with its contents; a function
{"func": name}; a float that JSON cannot express {"float": "nan" | "inf" | "-inf"}; null if it is
not set.
"""

from __future__ import annotations

import json
import math
import struct
from typing import TYPE_CHECKING, Final

from traceanalyzer.trace.message import (
    BrokenMessageError,
    as_bytes,
    as_number,
    as_text,
    fields,
    varint,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from traceanalyzer.capture_file.document import Attributes, Json

TYPES: Final = (  # by their numbers
    *("invalid", "float", "double", "int32", "uint8", "int16", "int8", "string", "complex64"),
    *("int64", "bool", "qint8", "quint8", "qint32", "bfloat16", "qint16", "quint16", "uint16"),
    *("complex128", "half", "resource", "variant", "uint32", "uint64", "float8_e5m2"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2fnuz", "int4", "uint4"),
    *("int2", "uint2", "float4_e2m1fn"),
)
_REFERENCES: Final = 100  # a reference's number is its type's plus this
_LONGEST: Final = 1000  # characters of a text, entries of a list
# Fields of an AttrValue and of its list, see `_READERS` for the others.
_LIST, _FLOAT, _FUNCTION_IN_LIST, _FUNCTION = 1, 4, 9, 10
_NUMBERS: Final = frozenset({3, 5, 6})  # packed in lists, as floats
_SIGN: Final = 1 << 63


class AttributePool:
    """Collects attribute sets, each distinct one once."""

    def __init__(self) -> None:
        self.sets: list[Attributes] = []
        self._index: dict[str, int] = {}
        self._by_wire: dict[tuple[bytes, ...], int] = {}

    def add(self, attributes: Attributes) -> int:
        """Return the index of a set, adding it if it is new."""
        key = json.dumps(attributes, sort_keys=True)
        at = self._index.setdefault(key, len(self.sets))
        if at == len(self.sets):
            self.sets.append(dict(sorted(attributes.items())))
        return at

    def add_entries(self, entries: list[memoryview]) -> int:
        """Return the index of the set with a NodeDef's `attr` entries.

        Most nodes repeat the bytes of another; only new ones are decoded.
        """
        if sum(map(len, entries)) > _LONGEST:  # a constant: its contents are not worth keeping
            return self.add(dict(map(attribute_of_entry, entries)))
        key = tuple(map(bytes, entries))
        at = self._by_wire.get(key)
        if at is None:
            at = self._by_wire[key] = self.add(dict(map(attribute_of_entry, entries)))
        return at


def attribute_of_entry(entry: bytes | memoryview) -> tuple[str, Json]:
    """Decode an entry of a map from names to AttrValues."""
    name, value = "", memoryview(b"")
    for number, field, _ in fields(memoryview(entry)):
        if number == 1:
            name = as_text(field)
        elif number == 2:  # noqa: PLR2004 - a map's value
            value = as_bytes(field)
    found: Json = None
    for number, field, _ in fields(value):
        if number == _LIST:
            found = [*_list(as_bytes(field))][:_LONGEST]
        elif number == _FUNCTION:
            found = {"func": _name_of(field)}
        elif number in _READERS:
            found = _READERS[number](field)
    return name, found


def type_name(number: int) -> str:
    """Return the name of a type by its number in types.proto: `float`, `resource`, `int32_ref`."""
    plain = number - _REFERENCES if number > _REFERENCES else number
    name = TYPES[plain] if plain < len(TYPES) else f"dtype{plain}"
    return f"{name}_ref" if number > _REFERENCES else name


def finite(number: float) -> Json:
    """Return a float for JSON; infinities and NaN become `{"float": ...}`."""
    return number if math.isfinite(number) else {"float": str(number)}


def _list(data: memoryview) -> Iterator[Json]:
    length = 0
    for number, field, _ in fields(data):
        if number == _FUNCTION_IN_LIST:
            values: list[Json] = [{"func": _name_of(field)}]
        elif number == _FLOAT:  # packed, or one
            whole = as_bytes(field)[: len(as_bytes(field)) & ~3]
            values = [finite(each) for (each,) in struct.iter_unpack("<f", whole)]
        elif number in _NUMBERS and not isinstance(field, int):
            values = [_READERS[number](each) for each in _varints(field)]
        else:
            values = [_READERS[number](field)] if number in _READERS else []
        yield from values
        length += len(values)
        if length >= _LONGEST:
            return


def _float(field: int | memoryview) -> Json:
    try:
        return finite(struct.unpack("<f", as_bytes(field))[0])
    except struct.error:
        raise BrokenMessageError from None


def _varints(data: memoryview) -> Iterator[int]:
    at = 0
    while at < len(data):
        number, at = varint(data, at)
        yield number


def _signed(number: int) -> int:
    return number - 2 * _SIGN if number & _SIGN else number


def _name_of(field: int | memoryview) -> str:
    """Return the name of a function, which is field 1."""
    found = [inner for number, inner, _ in fields(as_bytes(field)) if number == 1]
    return as_text(found[-1]) if found else ""


def _sizes(data: memoryview) -> Json:
    sizes: list[Json] = []
    for number, field, _ in fields(data):
        if number == 2:  # noqa: PLR2004 - dim
            found = [inner for at, inner, _ in fields(as_bytes(field)) if at == 1]
            sizes.append(_signed(as_number(found[-1])) if found else 0)
        elif number == 3 and field:  # noqa: PLR2004 - unknown_rank
            return None
    return sizes


def _tensor(field: int | memoryview) -> Json:
    found: dict[str, Json] = {"tensor": TYPES[0], "shape": []}
    for number, inner, _ in fields(as_bytes(field)):
        if number == 1:
            found["tensor"] = type_name(as_number(inner))
        elif number == 2:  # noqa: PLR2004 - tensor_shape
            found["shape"] = _sizes(as_bytes(inner))
    return found


# The reader of each field except lists and functions; long strings are cut.
_READERS: Final[dict[int, Callable[[int | memoryview], Json]]] = {
    2: lambda field: {"s": as_text(as_bytes(field)[:_LONGEST])},
    3: lambda field: _signed(as_number(field)),
    _FLOAT: _float,
    5: lambda field: bool(as_number(field)),
    6: lambda field: type_name(as_number(field)),
    7: lambda field: {"shape": _sizes(as_bytes(field))},
    8: _tensor,
}
