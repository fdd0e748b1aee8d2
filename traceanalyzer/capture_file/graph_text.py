"""Translates graphs in protobuf's text format (`.pbtxt`) into its binary format.

It translates only the fields that the readers of binary graphs use. Field numbers are from
TensorFlow's `core/framework` and `core/protobuf`.
"""

import re
import struct
from ast import literal_eval
from collections.abc import Mapping
from typing import Final

from traceanalyzer.capture_file.graph_def import REFERENCES, TYPES
from traceanalyzer.trace.message import FIXED32, LENGTH, VARINT, BrokenMessageError, encoded

_DEEPEST: Final = 100  # messages in each other, as protobuf's own parser limits it
_TEXT, _NUMBER, _FLOAT, _FLAG, _TYPE = "text", "number", "float", "flag", "type"
_WIRE_TYPES: Final = {_NUMBER: VARINT, _FLAG: VARINT, _TYPE: VARINT, _FLOAT: FIXED32}
_VALUES: Final = {
    "s": (2, _TEXT), "i": (3, _NUMBER), "f": (4, _FLOAT), "b": (5, _FLAG), "type": (6, _TYPE),
    "shape": (7, "shape"), "tensor": (8, "tensor"),
}  # fmt: skip
# The fields of each message by name: number, and kind of value or message.
_MESSAGES: Final[Mapping[str, Mapping[str, tuple[int, str]]]] = {
    "SavedModel": {"saved_model_schema_version": (1, _NUMBER), "meta_graphs": (2, "MetaGraph")},
    "MetaGraph": {"graph_def": (2, "GraphDef")},
    "RunMetadata": {"function_graphs": (4, "FunctionGraphs")},
    "FunctionGraphs": {
        "partition_graphs": (1, "GraphDef"),
        "pre_optimization_graph": (2, "GraphDef"),
    },
    "GraphDef": {"node": (1, "Node"), "library": (2, "library"), "versions": (4, "versions")},
    "versions": {"producer": (1, _NUMBER)},
    "library": {"function": (1, "Function")},
    "Function": {
        "signature": (1, "signature"), "node_def": (3, "Node"), "ret": (4, "ret"),
        "attr": (5, "attr"),
    },
    "signature": {"name": (1, _TEXT), "input_arg": (2, "Arg"), "output_arg": (3, "Arg")},
    "Arg": {"name": (1, _TEXT), "type": (3, _TYPE)},
    "ret": {"key": (1, _TEXT), "value": (2, _TEXT)},
    "Node": {
        "name": (1, _TEXT), "op": (2, _TEXT), "input": (3, _TEXT), "device": (4, _TEXT),
        "attr": (5, "attr"), "experimental_debug_info": (6, "debug"),
    },
    "debug": {"original_node_names": (1, _TEXT), "original_func_names": (2, _TEXT)},
    "attr": {"key": (1, _TEXT), "value": (2, "Value")},
    "Value": {**_VALUES, "list": (1, "List"), "func": (10, "func")},
    "List": {**_VALUES, "func": (9, "func")},
    "func": {"name": (1, _TEXT)},
    "shape": {"dim": (2, "dim"), "unknown_rank": (3, _FLAG)},
    "dim": {"size": (1, _NUMBER)},
    "tensor": {"dtype": (1, _TYPE), "tensor_shape": (2, "shape")},
}  # fmt: skip
_ROOTS: Final = {
    "saved_model_schema_version": "SavedModel", "meta_graphs": "SavedModel",
    "step_stats": "RunMetadata", "cost_graph": "RunMetadata", "partition_graphs": "RunMetadata",
    "function_graphs": "RunMetadata",
    "node": "GraphDef", "library": "GraphDef", "versions": "GraphDef",
}  # fmt: skip
_BLANK: Final = r"(?:\s|#[^\n]*)*"
_BEGIN: Final = re.compile(_BLANK.encode() + rb"(\w+)\s*[:{<]")
_TOKEN: Final = re.compile(
    _BLANK + r"""("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[\w.+-]+|[{}<>\[\]:,;]|\Z)"""
)
_CLOSING: Final = {"{": "}", "<": ">"}


def root_of(head: bytes) -> str:
    """Return the message type of a text file, given its beginning; "" if unknown."""
    found = _BEGIN.match(head)
    return _ROOTS.get(found[1].decode(errors="replace"), "") if found else ""


def binary(text: str, root: str) -> bytes:
    """Translate a message of type `root` into the binary format.

    Raises:
        BrokenMessageError: The text is damaged or cut short.
    """
    return _Parser(text).message(_MESSAGES[root], "", 0)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._next = ""
        self._advance()

    def _advance(self) -> str:
        """Consume and return the next token; "" at the end."""
        token, found = self._next, _TOKEN.match(self._text, self._at)
        if found is None:
            raise BrokenMessageError
        self._next, self._at = found[1], found.end()
        return token

    def _take(self, *tokens: str) -> str:
        return self._advance() if self._next in tokens else ""

    def message(self, fields: Mapping[str, tuple[int, str]], closing: str, depth: int) -> bytes:
        if depth > _DEEPEST:
            raise BrokenMessageError
        parts: list[bytes] = []
        while (name := self._advance()) != closing:
            number, kind = fields.get(name, (0, ""))
            self._take(":")
            is_list = bool(self._take("["))
            while not (is_list and self._take("]")):
                value = self._value(kind, depth)
                if number:
                    parts += (encoded(number << 3 | _WIRE_TYPES.get(kind, LENGTH)), value)
                self._take(",", ";")
                if not is_list:
                    break
                if not self._next:
                    raise BrokenMessageError(cut_short=True)
        return b"".join(parts)

    def _value(self, kind: str, depth: int) -> bytes:
        if opening := self._take(*_CLOSING):
            inner = self.message(_MESSAGES.get(kind, {}), _CLOSING[opening], depth + 1)
            return encoded(len(inner)) + inner
        token = self._advance()
        if not token or token in set("}>]:,;"):
            raise BrokenMessageError(cut_short=not token)
        try:
            return self._scalar(kind, token)
        except (ValueError, SyntaxError, OverflowError):
            raise BrokenMessageError from None

    def _scalar(self, kind: str, token: str) -> bytes:
        if token[0] in "\"'":
            words = [token]
            while self._next[:1] in {'"', "'"}:
                words.append(self._advance())
            data = b"".join(map(_unquoted, words))
            return encoded(len(data)) + data
        if kind == _FLOAT:
            return struct.pack("<f", float(token))
        if kind == _FLAG:
            return encoded(token in {"true", "True", "t", "1"})
        if kind == _TYPE:
            return encoded(_type_number(token))
        return encoded(int(token, 0)) if kind == _NUMBER else b""


def _unquoted(token: str) -> bytes:
    if "\\" not in token:
        return token[1:-1].encode()
    text = str(literal_eval(token))
    return text.encode("latin-1") if text.isascii() or max(text) <= "\xff" else text.encode()


def _type_number(token: str) -> int:
    name = token.removeprefix("DT_").lower()
    plain = name.removesuffix("_ref")
    return int(token) if token.isdecimal() else TYPES.index(plain) + REFERENCES * (plain != name)
