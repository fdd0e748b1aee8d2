"""Attributes of ops, from protobuf's wire format to the capture file's values.

Numbers of fields and types are those of attr_value.proto, tensor.proto, tensor_shape.proto and
types.proto in TensorFlow's `core/framework`.

The values of attributes: a type is plain text, TensorFlow's DataType in lower case without `DT_`
("float", "int32", "resource", "float_ref"); int, float, bool as such; a list a list; a string
{"s": text}, cut after 1000 characters; a shape {"shape": [size, -1 if unknown] or null for an
unknown rank}; a tensor {"tensor": type, "shape": ...}, never with its contents; a function
{"func": name}; a float that JSON has no number for {"float": "nan" | "inf" | "-inf"}; null where it
is not set.
"""

from __future__ import annotations

import json
import math
import struct
from typing import TYPE_CHECKING, Final

from traceanalyzer.trace.message import BrokenMessageError, fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.capture_file.document import Attributes, Json

TYPES: Final = (  # by their numbers
    *("invalid", "float", "double", "int32", "uint8", "int16", "int8", "string", "complex64"),
    *("int64", "bool", "qint8", "quint8", "qint32", "bfloat16", "qint16", "quint16", "uint16"),
    *("complex128", "half", "resource", "variant", "uint32", "uint64", "float8_e5m2"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2fnuz", "int4", "uint4"),
    *("int2", "uint2", "float4_e2m1fn"),
)
_REFERENCES: Final = 100  # a reference's number is its type's and this
_LONGEST: Final = 1000  # characters of a text, entries of a list
# Fields of an AttrValue; 2 is a string, 9 a placeholder's name (in definitions of functions only).
_LIST, _FLOAT, _BOOLEAN, _TYPE, _SHAPE, _TENSOR, _FUNCTION = 1, 4, 5, 6, 7, 8, 10
_SCALARS: Final = frozenset(range(2, 10))
_PACKED: Final = frozenset({3, 5, 6})  # in lists, with floats
_FUNCTION_IN_LIST: Final = 9
_SIGN: Final = 1 << 63


class AttributePool:
    """Collects attribute sets, each distinct one once."""

    def __init__(self) -> None:
        self.sets: list[Attributes] = []
        self._index: dict[str, int] = {}
        self._by_wire: dict[tuple[bytes, ...], int] = {}

    def add(self, attributes: Attributes) -> int:
        """Return the index of a set, adding it where it is new."""
        key = json.dumps(attributes, sort_keys=True)
        at = self._index.setdefault(key, len(self.sets))
        if at == len(self.sets):
            self.sets.append(dict(sorted(attributes.items())))
        return at

    def add_entries(self, entries: list[bytes | memoryview]) -> int:
        """Return the index of the set that a NodeDef's `attr` entries make.

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
            name = _text(_bytes(field))
        elif number == 2:  # noqa: PLR2004 - a map's value
            value = _bytes(field)
    return name, _value(value)


def type_name(number: int) -> str:
    """Return the name of a type by its number in types.proto: `float`, `resource`, `int32_ref`."""
    plain = number - _REFERENCES if number > _REFERENCES else number
    name = TYPES[plain] if plain < len(TYPES) else f"dtype{plain}"
    return f"{name}_ref" if number > _REFERENCES else name


def finite(number: float) -> Json:
    """Return a float for JSON; infinities and NaN become `{"float": ...}`."""
    return number if math.isfinite(number) else {"float": str(number)}


def _value(data: memoryview) -> Json:
    value: Json = None
    for number, field, _ in fields(data):
        if number == _LIST:
            value = _list(_bytes(field))
        elif number == _FUNCTION:
            value = {"func": _name_of(field)}
        elif number in _SCALARS:
            value = _scalar(number, field)
    return value


def _list(data: memoryview) -> list[Json]:
    values: list[Json] = []
    for number, field, _ in fields(data):
        if len(values) >= _LONGEST:
            break
        if number == _FUNCTION_IN_LIST:
            values.append({"func": _name_of(field)})
        elif number == _FLOAT:  # packed, or one
            whole = _bytes(field)[: len(_bytes(field)) & ~3]
            values += [finite(each) for (each,) in struct.iter_unpack("<f", whole)]
        elif number in _PACKED and not isinstance(field, int):
            values += [_scalar(number, each) for each in _varints(field)]
        elif number in _SCALARS:
            values.append(_scalar(number, field))
    return values[:_LONGEST]


def _scalar(number: int, field: int | memoryview) -> Json:
    value: Json
    if number in _PACKED:
        value = _number(field)
        if number == _BOOLEAN:
            value = bool(value)
        elif number == _TYPE:
            value = type_name(value)
        else:
            value = _signed(value)
    elif number == _FLOAT:
        data = _bytes(field)
        if len(data) != 4:  # noqa: PLR2004 - bytes of a float
            raise BrokenMessageError
        value = finite(struct.unpack("<f", data)[0])
    elif number == _SHAPE:
        value = {"shape": _sizes(_bytes(field))}
    elif number == _TENSOR:
        value = _tensor(field)
    else:
        value = {"s": _text(_bytes(field)[:_LONGEST])}
    return value


def _varints(data: memoryview) -> Iterator[int]:
    value = shift = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:  # noqa: PLR2004 - the last byte of a varint
            yield value
            value = shift = 0


def _bytes(field: int | memoryview) -> memoryview:
    if isinstance(field, int):  # a varint where the message has bytes
        raise BrokenMessageError
    return field


def _number(field: int | memoryview) -> int:
    if not isinstance(field, int):
        raise BrokenMessageError
    return field


def _signed(number: int) -> int:
    return number - 2 * _SIGN if number & _SIGN else number


def _text(data: memoryview) -> str:
    return str(data, "utf-8", "backslashreplace")


def _name_of(field: int | memoryview) -> str:
    """Return the name of a function, which is field 1."""
    found = [inner for number, inner, _ in fields(_bytes(field)) if number == 1]
    return _text(_bytes(found[-1])) if found else ""


def _sizes(data: memoryview) -> Json:
    sizes: list[Json] = []
    for number, field, _ in fields(data):
        if number == 2:  # noqa: PLR2004 - dim
            found = [inner for at, inner, _ in fields(_bytes(field)) if at == 1]
            sizes.append(_signed(_number(found[-1])) if found else 0)
        elif number == 3 and field:  # noqa: PLR2004 - unknown_rank
            return None
    return sizes


def _tensor(field: int | memoryview) -> Json:
    dtype = TYPES[0]
    shape: Json = []
    for number, inner, _ in fields(_bytes(field)):
        if number == 1:
            dtype = type_name(_number(inner))
        elif number == 2:  # noqa: PLR2004 - tensor_shape
            shape = _sizes(_bytes(inner))
    return {"tensor": dtype, "shape": shape}
