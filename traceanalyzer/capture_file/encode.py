"""Writes the records of a capture file as JSON, by the types of their fields."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from types import NoneType
from typing import Annotated, Any, Final, TypeAlias, get_args, get_origin

from traceanalyzer.capture_file.decode import hints_of
from traceanalyzer.capture_file.document import FORMAT, VERSION, CaptureFile, Json, Tensor
from traceanalyzer.capture_file.function_records import UNKNOWN, Graph, Partition

_Object: TypeAlias = dict[str, Json]
_Writer: TypeAlias = Callable[[Any, dict[str, int]], Any]

# They are in the file in a form of their own.
_POOLS: Final = frozenset({"frames", "scopes"})


def document_of(capture_file: CaptureFile) -> _Object:
    """Return the JSON of a capture file."""
    strings: dict[str, int] = {}
    document: _Object = {"format": FORMAT, "version": VERSION}
    document |= {
        name: write(getattr(capture_file, name), strings)
        for name, write in _writers(CaptureFile)
        if name not in _POOLS
    }
    return document | {
        "strings": [*strings],
        "frames": [[f.file, f.line, f.code, int(f.is_user)] for f in capture_file.frames],
        "frame_texts": [frame.text for frame in capture_file.frames],
        "scopes": [[scope.device, scope.frame] for scope in capture_file.scopes],
        "scope_origins": [scope.origin for scope in capture_file.scopes],
    }


@cache
def _writers(kind: type) -> tuple[tuple[str, _Writer], ...]:
    hints = hints_of(kind)
    return tuple((f.name, _writer(hints[f.name])) for f in fields(kind) if f.init)


@cache
def _writer(hint: Any) -> _Writer:  # noqa: ANN401, PLR0911 - a case for each type
    """Return what writes a value; texts of the pool become their number in `strings`."""
    if hint in _WRITERS:
        return _WRITERS[hint]
    arguments, origin = get_args(hint), get_origin(hint)
    if origin is Annotated and arguments[0] is str:
        return lambda value, strings: strings.setdefault(value, len(strings))
    if origin is Annotated and arguments[0] is not int:
        return lambda value, _: b64encode(value.astype("<u4").tobytes()).decode("ascii")
    if NoneType in arguments:
        (rest,) = (each for each in arguments if each is not NoneType)
        inner = _writer(rest)
        return lambda value, strings: None if value is None else inner(value, strings)
    if origin is tuple:
        inner = _writer(arguments[0])
        return lambda value, strings: [inner(each, strings) for each in value]
    if origin is frozenset:
        return lambda value, _: sorted(value)
    if origin is Mapping:
        inner = _writer(arguments[1])
        return lambda value, strings: {k: inner(each, strings) for k, each in value.items()}
    if is_dataclass(hint):
        return lambda value, strings: _written(hint, value, strings)  # type: ignore[arg-type]
    return lambda value, _: value


def _written(kind: type, value: object, strings: dict[str, int]) -> _Object:
    return {name: write(getattr(value, name), strings) for name, write in _writers(kind)}


def _written_tensor(tensor: Tensor, strings: dict[str, int]) -> Json:
    return [*_written(Tensor, tensor, strings).values()]


def _written_graph(graph: Graph, strings: dict[str, int]) -> Json:
    column = _writer(hints_of(Graph)["names"])
    flat = [text for inputs in graph.inputs for text in inputs]
    return _without_empty_sets(
        {
            **_written(Graph, replace(graph, inputs=((),)), strings),
            "arity": [len(inputs) for inputs in graph.inputs],
            "inputs": column(flat, strings),
        }
    )


def _without_empty_sets(written: _Object) -> _Object:
    """Return a graph with null where the attribute sets of all its nodes were left out."""
    sets = written["attributes"]
    is_empty = isinstance(sets, list) and {*sets} == {UNKNOWN}
    return {**written, "attributes": None} if is_empty else written


_WRITERS: Final[dict[Any, _Writer]] = {
    Tensor: _written_tensor,
    Graph: _written_graph,
    Partition: lambda value, strings: _without_empty_sets(_written(Partition, value, strings)),
}
