"""Reads the records of a capture file from its JSON, by the types of their fields.

Nothing in a file is trusted: every type and every index is checked here, once, so that no reader of
the records need do so. A key that is missing has the field's default.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from itertools import pairwise
from types import NoneType
from typing import (
    Annotated,
    Any,
    Final,
    NoReturn,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np

from traceanalyzer.capture_file.document import (
    LARGEST,
    OF_ANOTHER,
    OF_OP,
    Attributes,
    CaptureFile,
    EagerSequence,
    Frame,
    Json,
    Scope,
    Tensor,
)
from traceanalyzer.capture_file.function_records import (
    UNKNOWN,
    Definition,
    Graph,
    Index,
    Instance,
    Partition,
)

_Object: TypeAlias = dict[str, Json]
_Record = TypeVar("_Record")
_Reader: TypeAlias = "Callable[[Decoder, Any, str], Any]"

_TENSOR_PARTS: Final = 5
_COLUMNS: Final = (Definition, Graph, Partition, EagerSequence)  # records of columns, equally long


class DamagedDocumentError(Exception):
    """The JSON is not that of a capture file; its text says where."""


def capture_file_of(document: Json) -> CaptureFile:
    """Return the records of a capture file's JSON.

    Raises:
        DamagedDocumentError: A key is missing, of a wrong type, or points nowhere.
    """
    whole = _object(document, "document")
    frames, scopes = _list(whole.get("frames"), "frames"), _list(whole.get("scopes"), "scopes")
    decoder = Decoder(
        strings=_listed(whole.get("strings"), "strings", {str}, "texts"),
        frames=frames,
        scopes=scopes,
        texts=_list(whole.get("frame_texts", [None] * len(frames)), "frame_texts"),
        origins=_list(whole.get("scope_origins", [None] * len(scopes)), "scope_origins"),
        attributes=_list(whole.get("attributes"), "attributes"),
        **{k: len(_list(whole.get(k), k)) for k in ("signatures", "resources", "sessions")},
    )
    given = {
        "frames": decoder.frames,
        "scopes": decoder.scopes,
        "attributes": decoder.attributes,
    }
    return decoder.record(CaptureFile, whole, given=given)


class Decoder:
    """Decodes records that point into pools, checking each index against its pool."""

    def __init__(  # noqa: PLR0913 - one for each pool
        self,
        *,
        strings: list[str],
        frames: list[Json],
        scopes: list[Json],
        texts: Sequence[Json] | None = None,
        origins: Sequence[Json],
        attributes: list[Json],
        signatures: int,
        resources: int,
        sessions: int,
    ) -> None:
        self.strings = strings
        self.sizes = {
            "": LARGEST,
            "strings": len(strings),
            "frames": len(frames),
            "scopes": len(scopes),
            "attributes": len(attributes),
            "signatures": signatures,
            "resources": resources,
            "sessions": sessions,
        }
        texts = [None] * len(frames) if texts is None else texts
        _equally_long("frame_texts", frames, texts)
        _equally_long("scope_origins", scopes, origins)
        self.frames = tuple(map(_frame, frames, texts))
        self.scopes = tuple(map(self._scope, scopes, origins))
        self.attributes: tuple[Attributes, ...] = tuple(
            _object(each, "attributes") for each in attributes
        )

    def record(
        self,
        kind: type[_Record],
        value: Json,
        key: str = "record",
        given: Mapping[str, object] | None = None,
    ) -> _Record:
        """Decode a record, but for the fields that are given."""
        listed = _object(value, key)
        values = dict(given or {})
        readers = _readers(kind)  # type: ignore[arg-type]  # a class is hashable
        for name, read, is_required in readers:
            if name in values:
                continue
            if name in listed:
                values[name] = read(self, listed[name], name)
            elif is_required:
                msg = f"`{name}` is missing"
                raise DamagedDocumentError(msg)
        found = kind(**values)
        if isinstance(found, _COLUMNS):
            columns = [
                value
                for name, _, is_required in readers
                if isinstance(value := getattr(found, name), tuple | np.ndarray)
                and (is_required or len(value))
            ]
            _equally_long(key, *columns)
        elif isinstance(found, Instance):
            _equally_long(key, found.input.names, found.assigned)
        return found

    def indices(self, value: Json, key: str, index: Index) -> list[int]:
        """Return a list of indices into a pool."""
        found: list[int] = _listed(value, key, {int}, "whole numbers")
        if found and (min(found) < index.low or max(found) >= self.sizes[index.pool]):
            _refuse_index(key)
        return found

    def column(self, value: Json, key: str) -> tuple[str, ...]:
        """Return texts that the file has in its pool of strings."""
        return tuple(map(self.strings.__getitem__, self.indices(value, key, _STRING)))

    def _scope(self, value: Json, origin: Json) -> Scope:
        match value:
            case [str(device), int(frame)] if UNKNOWN <= frame < len(self.frames):
                return Scope(device=device, frame=int(frame), origin=self._origin(origin))
        return _refuse("scopes", "pair of a device and a frame")

    def _origin(self, value: Json) -> int | None:
        """Return the origin of a scope's device; `OF_ANOTHER` if a killed capture lacks it."""
        if value is None:
            return None
        origin = self.indices([value], "scope_origins", Index("", -LARGEST))[0]
        is_known = OF_OP - self.sizes["signatures"] < origin < self.sizes["resources"]
        return origin if is_known else OF_ANOTHER


_STRING: Final = Index("strings", 0)
_RESOURCE: Final = Index("resources", 0)


@cache
def _readers(kind: Any) -> tuple[tuple[str, _Reader, bool], ...]:  # noqa: ANN401 - a record
    """Return each field of a record: its name, what reads it, and whether it must be there."""
    hints = hints_of(kind)
    return tuple(
        (f.name, _reader(hints[f.name]), f.default is MISSING and f.default_factory is MISSING)
        for f in fields(kind)
        if f.init
    )


def hints_of(kind: type) -> dict[str, Any]:
    """Return the types of a record's fields, with what `Annotated` says of them."""
    return get_type_hints(kind, localns={"Json": Any}, include_extras=True)


@cache
def _reader(hint: Any) -> _Reader:  # noqa: ANN401, PLR0911 - a case for each type
    if hint in _PLAIN:
        return _PLAIN[hint]
    arguments = get_args(hint)
    origin = get_origin(hint)
    if origin is Annotated and arguments[0] is int:
        return lambda decoder, value, key: decoder.indices([value], key, arguments[1])[0]
    if origin is Annotated and arguments[0] is str:
        return lambda decoder, value, key: decoder.column([value], key)[0]
    if origin is Annotated:
        return lambda decoder, value, key: _numbers(decoder, value, key, arguments[1])
    if NoneType in arguments:
        (rest,) = (each for each in arguments if each is not NoneType)
        inner = _reader(rest)
        return lambda decoder, value, key: None if value is None else inner(decoder, value, key)
    if origin in {tuple, frozenset}:
        return _list_reader(arguments[0], origin)
    if origin is Mapping:
        each = _reader(arguments[1])
        return lambda decoder, value, key: {
            name: each(decoder, inner, name) for name, inner in _object(value, key).items()
        }
    if is_dataclass(hint):
        return lambda decoder, value, key: decoder.record(hint, value, key)  # type: ignore[arg-type]
    known = {*arguments}  # a union of plain types
    return lambda _, value, key: _listed([value], key, known, "texts and numbers")[0]


def _list_reader(hint: Any, kind: type) -> _Reader:  # noqa: ANN401 - a type
    """Return what reads a list; those of numbers and texts are read at once, for they are long."""
    if get_origin(hint) is Annotated:
        of, index = get_args(hint)
        if of is str:
            return Decoder.column
        return lambda decoder, value, key: kind(decoder.indices(value, key, index))
    if hint is str:
        return lambda _, value, key: kind(_listed(value, key, {str}, "texts"))
    inner = _reader(hint)
    return lambda decoder, value, key: kind(
        [inner(decoder, each, key) for each in _list(value, key)]
    )


def _frame(value: Json, text: Json) -> Frame:
    match value:
        case [str(file), int(line), str(code), int(is_user)]:
            if text is None or isinstance(text, str):
                return Frame(file=file, line=int(line), code=code, is_user=bool(is_user), text=text)
            _refuse("frame_texts", "list of texts and nulls")
    return _refuse("frames", "file, line, code name and 0 or 1")


def _tensor(decoder: Decoder, value: Json, key: str) -> Tensor:
    if not isinstance(value, list) or len(value) != _TENSOR_PARTS:
        _refuse(key, "list of tensors: type, two devices, resource and shape")
    *texts, resource, shape = value
    dtype, device, backing_device = decoder.column(texts, key)
    sizes = None if shape is None else decoder.indices(shape, "shape", Index(""))
    return Tensor(
        dtype=dtype,
        device=device,
        backing_device=backing_device,
        resource=None if resource is None else decoder.indices([resource], key, _RESOURCE)[0],
        shape=None if sizes is None else tuple(sizes),
    )


def _graph(decoder: Decoder, value: Json, key: str) -> Graph:
    listed = _object(value, key)
    arity = decoder.indices(listed.get("arity"), "arity", Index("", 0))
    inputs = decoder.column(listed.get("inputs"), "inputs")
    if sum(arity) != len(inputs):
        _refuse_lengths("inputs")
    ends = np.cumsum([0, *arity]).tolist()
    of_nodes = tuple([inputs[begin:end] for begin, end in pairwise(ends)])
    return decoder.record(Graph, listed, key, {"inputs": of_nodes, **_left_out_sets(listed)})


def _partition(decoder: Decoder, value: Json, key: str) -> Partition:
    listed = _object(value, key)
    return decoder.record(Partition, listed, key, _left_out_sets(listed))


def _left_out_sets(listed: _Object) -> dict[str, object]:
    if listed.get("attributes") is not None:
        return {}
    return {"attributes": (UNKNOWN,) * len(_list(listed.get("names"), "names"))}


def _numbers(decoder: Decoder, value: Json, key: str, index: Index) -> Any:  # noqa: ANN401 - an array
    try:
        found = np.frombuffer(b64decode(value, validate=True), "<u4")  # type: ignore[arg-type]
    except (binascii.Error, TypeError, ValueError):  # ValueError: not of whole numbers, not ASCII
        _refuse(key, "base64 of whole numbers of 32 bits")
    if len(found) and int(found.max()) >= decoder.sizes[index.pool]:
        _refuse_index(key)
    return found.astype(np.uint32, copy=False)


def _equally_long(what: str, *columns: Sequence[object] | Any) -> None:  # noqa: ANN401 - an array
    if len({len(column) for column in columns}) > 1:
        _refuse_lengths(what)


def _listed(value: Json, key: str, types: set[type], what: str) -> Any:  # noqa: ANN401 - of `types`
    found = _list(value, key)
    if not set(map(type, found)) <= types:
        _refuse(key, f"list of {what}")
    return found


def _list(value: Json, key: str) -> list[Json]:
    if not isinstance(value, list):
        _refuse(key, "list")
    return value


def _object(value: Json, key: str) -> _Object:
    if not isinstance(value, dict):
        _refuse(key, "object")
    return value


def _plain(what: str, *kinds: type) -> _Reader:
    """Return what reads a value of some types; a bool is no number."""

    def read(_: Decoder, value: Any, key: str) -> Any:  # noqa: ANN401 - of `kinds`
        is_number = type(value) in {int, float}
        if type(value) not in kinds or (is_number and not abs(value) <= LARGEST):
            _refuse(key, what)
        return float(value) if float in kinds else value

    return read


def _refuse(key: str, what: str) -> NoReturn:
    msg = f"`{key}` is not {what}"
    raise DamagedDocumentError(msg)


def _refuse_lengths(key: str) -> NoReturn:
    msg = f"the columns of `{key}` differ in length"
    raise DamagedDocumentError(msg)


def _refuse_index(key: str) -> NoReturn:
    msg = f"`{key}` points to something that is not there"
    raise DamagedDocumentError(msg)


_PLAIN: Final[dict[Any, _Reader]] = {
    str: _plain("text", str),
    bool: _plain("true or false", bool),
    int: _plain("whole number", int),
    float: _plain("number", int, float),
    Any: lambda _, value, __: value,
    Tensor: _tensor,
    Graph: _graph,
    Partition: _partition,
}
