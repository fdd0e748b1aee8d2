"""Reads the graphs that TensorFlow dumps, serialised GraphDefs, without TensorFlow and protobuf.

Numbers of fields are those of graph.proto, node_def.proto and versions.proto in TensorFlow's
`core/framework`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.function_records import UNKNOWN, Graph
from traceanalyzer.trace.message import BrokenMessageError, fields

if TYPE_CHECKING:
    from traceanalyzer.capture_file.attributes import AttributePool

_NODE, _VERSIONS = 1, 4  # of a GraphDef
_PRODUCER = 1  # of its VersionDef
# Of a NodeDef; each is a length-delimited field, whose tag is one byte.
_NAME, _OP, _INPUT, _DEVICE, _ATTR, _DEBUG = (number << 3 | 2 for number in range(1, 7))
_ORIGINAL_NODE, _ORIGINAL_FUNCTION = 1, 2  # of its ExperimentalDebugInfo
_LENGTH: Final = 2
# Larger nodes are constants: a view is read slower than a copy, but a copy of them costs more.
_COPIED: Final = 4096


def parse_graph(data: bytes | memoryview, attributes: AttributePool | None = None) -> Graph:
    """Read a serialized GraphDef without its function library.

    Args:
        attributes: Where attribute sets are put; None to pass over them.

    Returns:
        The graph; names and op types that recur are one object.

    Raises:
        BrokenMessageError: The bytes are not a GraphDef.
    """
    columns = _Columns(attributes)
    producer = 0
    for number, value, _ in fields(memoryview(data)):
        if number == _NODE:
            columns.add(_message(value))
        elif number == _VERSIONS:
            for inner_number, inner, _ in fields(_message(value)):
                if inner_number == _PRODUCER and isinstance(inner, int):
                    producer = inner
    return columns.graph(producer)


def _message(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise BrokenMessageError
    return value


class _Columns:
    """The columns of a graph as they grow."""

    def __init__(self, attributes: AttributePool | None) -> None:
        self._pool = attributes
        self._texts: dict[bytes, str] = {}
        self._names: list[str] = []
        self._ops: list[str] = []
        self._inputs: list[tuple[str, ...]] = []
        self._devices: list[str] = []
        self._attributes: list[int] = []
        self._origin_functions: list[str] = []
        self._origin_nodes: list[str] = []

    def graph(self, producer: int) -> Graph:
        return Graph(
            names=tuple(self._names),
            ops=tuple(self._ops),
            inputs=tuple(self._inputs),
            devices=tuple(self._devices),
            attributes=tuple(self._attributes),
            origin_functions=tuple(self._origin_functions),
            origin_nodes=tuple(self._origin_nodes),
            producer=producer,
        )

    def add(self, view: memoryview) -> None:
        """Read a NodeDef. The loop is written out: graphs have a million fields."""
        node = bytes(view) if len(view) <= _COPIED else view
        text = self._text
        texts = {_NAME: "", _OP: "", _DEVICE: ""}
        function = origin = ""
        inputs: list[str] = []
        entries: list[bytes | memoryview] = []
        at, end = 0, len(node)
        while at < end:
            tag = node[at]
            at += 1
            if tag & 7 != _LENGTH or tag > 0x7F or at >= end:  # noqa: PLR2004 - a longer tag
                at = self._pass_over(view, at - 1)
                continue
            length = node[at]
            at += 1
            if length > 0x7F:  # noqa: PLR2004 - a length of several bytes
                length, at = _long(node, at - 1)
            stop = at + length
            if stop > end:
                raise BrokenMessageError(cut_short=True)
            if tag == _ATTR:
                entries.append(node[at:stop])
            elif tag == _INPUT:
                inputs.append(text(bytes(node[at:stop])))
            elif tag in texts:
                texts[tag] = text(bytes(node[at:stop]))
            elif tag == _DEBUG:
                function, origin = self._origin(view[at:stop])
            at = stop
        self._names.append(texts[_NAME])
        self._ops.append(texts[_OP])
        self._inputs.append(tuple(inputs))
        self._devices.append(texts[_DEVICE])
        self._attributes.append(UNKNOWN if self._pool is None else self._pool.add_entries(entries))
        self._origin_functions.append(function)
        self._origin_nodes.append(origin)

    def _origin(self, data: memoryview) -> tuple[str, str]:
        """Return the first function and node: of several, grappler merged them."""
        node = function = ""
        for number, value, _ in fields(data):
            if number == _ORIGINAL_NODE and not node:
                node = self._text(bytes(_message(value)))
            elif number == _ORIGINAL_FUNCTION and not function:
                function = self._text(bytes(_message(value)))
        return function, node

    def _text(self, data: bytes) -> str:
        """Decode a text, once for all nodes that have it."""
        known = self._texts.get(data)
        if known is None:
            known = self._texts[data] = str(data, "utf-8", "backslashreplace")
        return known

    def _pass_over(self, node: memoryview, at: int) -> int:
        """Return the end of a field that is none of ours."""
        for _, _, end in fields(node[at:]):
            return at + end
        raise BrokenMessageError


def _long(data: bytes | memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift <= 63:  # noqa: PLR2004 - bits of the longest
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the last byte of a varint
            return value, at
        shift += 7
    raise BrokenMessageError(cut_short=True)
