"""Reads serialized GraphDefs without TensorFlow or protobuf.

Field and type numbers are from graph.proto, node_def.proto, versions.proto, attr_value.proto,
tensor.proto, tensor_shape.proto, and types.proto in TensorFlow's `core/framework`.

Values of attributes become JSON. A type is TensorFlow's DataType in lower case without `DT_`
("float", "int32", "float_ref"). A string is {"s": text}, cut after 1000 characters. A shape is
{"shape": sizes}, with -1 for unknown sizes and null for an unknown rank. A tensor is {"tensor":
type, "shape": ...}, without its contents. A function is {"func": name}. NaN and infinities are
{"float": "nan" | "inf" | "-inf"}. An unset value is null.
"""

from __future__ import annotations

import json
import math
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from traceanalyzer.capture_file.document import Attributes, Json
from traceanalyzer.capture_file.function_records import UNKNOWN, FunctionBody, Graph
from traceanalyzer.trace.message import BrokenMessageError, Message, as_bytes, as_text, varint

TYPES: Final = (  # by their numbers
    *("invalid", "float", "double", "int32", "uint8", "int16", "int8", "string", "complex64"),
    *("int64", "bool", "qint8", "quint8", "qint32", "bfloat16", "qint16", "quint16", "uint16"),
    *("complex128", "half", "resource", "variant", "uint32", "uint64", "float8_e5m2"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2fnuz", "int4", "uint4"),
    *("int2", "uint2", "float4_e2m1fn"),
)
REFERENCES: Final = 100  # a reference's number is its type's plus this
_LONGEST: Final = 1000  # characters of a text, entries of a list
_SIGN: Final = 1 << 63
_COLUMNS: Final = (
    *("names", "ops", "inputs", "devices", "attributes"),
    *("origin_functions", "origin_nodes"),
)


def parse_graph(data: bytes | memoryview, attributes: AttributePool | None = None) -> Graph:
    """Read a serialized GraphDef without its function library.

    Args:
        attributes: Collects the attribute sets; None to skip them.

    Raises:
        BrokenMessageError: The bytes are not a GraphDef.
    """
    graph = Message(data)
    rows = [_row(Message(node), attributes) for node in graph.every(1)]
    return graph_of(rows, producer=graph.message(4).number(1))


def graph_of(rows: Sequence[tuple[Any, ...]], producer: int = 0) -> Graph:
    """Build a graph from one row per node, with values in the order of `_COLUMNS`."""
    columns = list(zip(*rows, strict=True)) or [()] * len(_COLUMNS)
    return Graph(**dict(zip(_COLUMNS, columns, strict=True)), producer=producer)


def parse_library(
    data: bytes | memoryview, attributes: AttributePool
) -> Iterator[tuple[str, FunctionBody]]:
    """Yield the name and the body of each function in the library of a serialized GraphDef."""
    for each in Message(data).message(2).every(1):
        function = Message(each)
        signature = function.message(1)
        given, made = (
            [(a.text(1), type_name(a.number(3))) for a in map(Message, signature.every(field))]
            for field in (2, 3)
        )
        rows = [
            (name, "_Arg", (), "", attributes.add({"T": dtype, "index": at}), "", "")
            for at, (name, dtype) in enumerate(given)
        ]
        rows += [_row(Message(node), attributes) for node in function.every(3)]
        returned = {m.text(1): m.text(2) for m in map(Message, function.every(4))}
        own = dict(map(attribute_of_entry, map(as_bytes, function.every(5))))
        yield (
            signature.text(1),
            FunctionBody(
                graph=graph_of(rows),
                results=tuple(returned.get(name, "") for name, _ in made),
                types=tuple(dtype for _, dtype in made),
                is_inlined=not (own.get("_noinline") or own.get("_XlaMustCompile")),
            ),
        )


def _row(node: Message, attributes: AttributePool | None) -> tuple[Any, ...]:
    """Return the values of a NodeDef, in the order of `_COLUMNS`."""
    name, op, device = (sys.intern(node.text(field)) for field in (1, 2, 4))
    inputs = tuple(sys.intern(as_text(each)) for each in node.every(3))
    index = UNKNOWN if attributes is None else attributes.add_entries(node.every(5))
    debug_info = node.message(6)
    origins = (
        next(filter(None, map(as_text, debug_info.every(field))), "")  # Grappler may merge several
        for field in (2, 1)
    )
    return name, op, inputs, device, index, *map(sys.intern, origins)


class AttributePool:
    """Collects distinct attribute sets."""

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

    def add_entries(self, entries: Sequence[int | memoryview]) -> int:
        """Return the index of a NodeDef's attribute set; decode its entries if they are new."""
        parts = [*map(as_bytes, entries)]
        if sum(map(len, parts)) > _LONGEST:  # a constant: its contents are not worth keeping
            return self.add(dict(map(attribute_of_entry, parts)))
        key = tuple(map(bytes, parts))
        at = self._by_wire.get(key)
        if at is None:
            at = self._by_wire[key] = self.add(dict(map(attribute_of_entry, parts)))
        return at


def attribute_of_entry(entry: bytes | memoryview) -> tuple[str, Json]:
    """Decode an entry of a map from names to AttrValues."""
    found = Message(entry)
    value: Json = None
    for number, fields in found.message(2).values.items():
        if number in _READERS_OF_VALUE:
            value = _READERS_OF_VALUE[number](fields[-1])
    return found.text(1), value


def type_name(number: int) -> str:
    """Return the name of a type by its number in types.proto: `float`, `resource`, `int32_ref`."""
    plain = number - REFERENCES if number > REFERENCES else number
    name = TYPES[plain] if 0 <= plain < len(TYPES) else f"dtype{plain}"
    return f"{name}_ref" if number > REFERENCES else name


def finite(number: float) -> Json:
    """Return a float as JSON. Infinities and NaN become `{"float": ...}`."""
    return number if math.isfinite(number) else {"float": str(number)}


def _list(field: int | memoryview) -> Json:
    values = Message(field).values.items()
    every = (value for number, fields in values for each in fields for value in _one(number, each))
    return [*islice(every, _LONGEST)]


def _one(number: int, field: int | memoryview) -> Iterator[Json]:
    """Yield the values in one field of a `ListValue`; a packed field contains several."""
    if number == _FLOAT:
        packed = as_bytes(field)
        yield from (
            finite(each) for (each,) in struct.iter_unpack("<f", packed[: len(packed) & ~3])
        )
    elif number in _NUMBERS and not isinstance(field, int):
        at = 0
        while at < len(field):
            value, at = varint(field, at)
            yield _READERS[number](value)
    elif number in _READERS_IN_LIST:
        yield _READERS_IN_LIST[number](field)


def _number(field: int | memoryview) -> int:
    if not isinstance(field, int):
        raise BrokenMessageError
    return field - 2 * _SIGN if field & _SIGN else field


def _float(field: int | memoryview) -> Json:
    try:
        return finite(struct.unpack("<f", as_bytes(field))[0])
    except struct.error:
        raise BrokenMessageError from None


def _function(field: int | memoryview) -> Json:
    return {"func": Message(field).text(1)}


def _sizes(shape: Message) -> Json:
    sizes = [_number(Message(dimension).number(1)) for dimension in shape.every(2)]
    return None if shape.number(3) else list(sizes)  # unknown_rank


def _tensor(field: int | memoryview) -> Json:
    tensor = Message(field)
    return {"tensor": type_name(tensor.number(1)), "shape": _sizes(tensor.message(2))}


# Fields that an AttrValue and its list share.
_FLOAT: Final = 4
_NUMBERS: Final = frozenset({3, 5, 6})  # packed in lists, as floats
_READERS: Final[dict[int, Callable[[int | memoryview], Json]]] = {
    2: lambda field: {"s": as_text(as_bytes(field)[:_LONGEST])},
    3: _number,
    _FLOAT: _float,
    5: lambda field: bool(_number(field)),
    6: lambda field: type_name(_number(field)),
    7: lambda field: {"shape": _sizes(Message(field))},
    8: _tensor,
}
_READERS_IN_LIST: Final = _READERS | {9: _function}
_READERS_OF_VALUE: Final = _READERS | {1: _list, 10: _function}
