"""Reads GraphDefs in protobuf's text format, as TensorFlow 2.13 to 2.15 dumps them.

Later versions write serialized protos. The text is encoded as one, without the fields that
`graph_def` does not read: it then reads both. TensorFlow prints a field per line (`name: value`,
`name {`, `}`), and escapes line breaks in strings.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from traceanalyzer.capture_file.graph_def import REFERENCES, TYPES
from traceanalyzer.trace.message import FIXED32, LENGTH, VARINT, BrokenMessageError, encoded

_Encoder: TypeAlias = "Callable[[str], tuple[int, bytes]]"  # returns wire type and content
_Fields: TypeAlias = "dict[str, tuple[int, str]]"  # number, and kind: a scalar's or a message's

_TYPE_NUMBERS: Final = {f"DT_{name.upper()}": number for number, name in enumerate(TYPES)}
_REF: Final = "_REF"
_ESCAPE: Final = re.compile(rb"\\([0-7]{1,3}|x[0-9a-fA-F]{1,2}|.)", re.DOTALL)
_NAMED_ESCAPES: Final = {
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"v": b"\v",
}
_ATTR: Final = (5, "Entry")
_SHARED: Final[_Fields] = {
    "s": (2, "string"),
    "i": (3, "int"),
    "f": (4, "float"),
    "b": (5, "bool"),
    "type": (6, "type"),
    "shape": (7, "Shape"),
    "tensor": (8, "Tensor"),
}
# The fields that are read, with their numbers in graph.proto and the files that it imports.
_MESSAGES: Final[dict[str, _Fields]] = {
    "Graph": {"node": (1, "Node"), "versions": (4, "Versions")},
    "Versions": {"producer": (1, "int")},
    "Node": {
        "name": (1, "string"),
        "op": (2, "string"),
        "input": (3, "string"),
        "device": (4, "string"),
        "attr": _ATTR,
        "experimental_debug_info": (6, "Origins"),
    },
    "Origins": {"original_node_names": (1, "string"), "original_func_names": (2, "string")},
    "Entry": {"key": (1, "string"), "value": (2, "Value")},
    "Value": _SHARED
    | {"list": (1, "List"), "func": (10, "Function"), "placeholder": (9, "string")},
    "List": _SHARED | {"func": (9, "Function")},
    "Function": {"name": (1, "string")},
    "Shape": {"dim": (2, "Size"), "unknown_rank": (3, "bool")},
    "Size": {"size": (1, "int")},
    "Tensor": {"dtype": (1, "type"), "tensor_shape": (2, "Shape")},
}


def graph_of_text(text: str) -> bytes:
    """Return the GraphDef of a text as a serialized proto.

    Raises:
        BrokenMessageError: The text is not a whole GraphDef.
    """
    lines = iter(text.splitlines())
    try:
        content = _message(lines, "Graph")
    except (ValueError, KeyError, struct.error, OverflowError):
        raise BrokenMessageError from None
    if content is None or not text.strip():
        raise BrokenMessageError
    return content


def _message(lines: Iterator[str], kind: str) -> bytes | None:
    """Encode the fields up to the end of a message; None if the text ends before."""
    fields, content = _MESSAGES[kind], bytearray()
    for raw in lines:
        line = raw.strip()
        if line == "}":
            return None if kind == "Graph" else bytes(content)
        name, is_scalar, value = line.partition(": ")
        if not is_scalar:
            if not line.endswith(" {"):
                if line:
                    raise ValueError
                continue
            name = line[:-2]
        number, of_field = fields.get(name, (0, ""))
        if is_scalar:
            if number:
                wire, encoded_value = _ENCODERS[of_field](value)
                content += encoded(number << 3 | wire) + encoded_value
            continue
        inner = _message(lines, of_field) if number else _skipped(lines)
        if inner is None:
            return None
        if number:
            content += encoded(number << 3 | LENGTH) + encoded(len(inner)) + inner
    return bytes(content) if kind == "Graph" else None


def _skipped(lines: Iterator[str]) -> bytes | None:
    depth = 1
    for raw in lines:
        line = raw.strip()
        depth += (line.endswith(" {") and '"' not in line) - (line == "}")
        if not depth:
            return b""
    return None


def _string(value: str) -> tuple[int, bytes]:
    quoted = value.encode()
    if len(quoted) < len('""') or quoted[:1] != quoted[-1:] or quoted[:1] not in {b'"', b"'"}:
        raise ValueError
    content = _ESCAPE.sub(_unescaped, quoted[1:-1])
    return LENGTH, encoded(len(content)) + content


def _unescaped(match: re.Match[bytes]) -> bytes:
    code = match[1]
    if code[:1] == b"x" and len(code) > 1:
        return bytes((int(code[1:], 16),))
    if code.isdigit():
        return bytes((int(code, 8) & 0xFF,))
    return _NAMED_ESCAPES.get(code, code)


def _type(value: str) -> tuple[int, bytes]:
    number = _TYPE_NUMBERS.get(value)
    if number is None and value.endswith(_REF):
        number = _TYPE_NUMBERS[value.removesuffix(_REF)] + REFERENCES
    return VARINT, encoded(int(value) if number is None else number)


_ENCODERS: Final[dict[str, _Encoder]] = {
    "string": _string,
    "int": lambda value: (VARINT, encoded(int(value))),
    "bool": lambda value: (VARINT, encoded({"true": 1, "false": 0}[value])),
    "float": lambda value: (FIXED32, struct.pack("<f", float(value))),
    "type": _type,
}
