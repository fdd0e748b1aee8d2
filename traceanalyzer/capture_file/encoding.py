"""Converts a capture file's records to JSON and back.

`HOST.placement.json.gz`, beside `HOST.xplane.pb`, is a gzipped JSON object with `format`,
`version`, and the fields of `CaptureFile`. Readers reject other formats and versions, ignore
unknown keys, and use defaults for missing keys. Records are objects whose keys are the field
names, except for:

- `strings`: all texts; columns of nodes and tensors contain indices into it.
- `frames`: [file, line, code name, 1 for user code or 0]; their text is in `frame_texts`.
- `scopes`: [requested device, index of a frame]; the devices' origins are in `scope_origins`.
- tensors: [dtype, device, backing device, index of the resource or null, shape].
- graphs: `inputs` is one list for all nodes, and `arity` the number of inputs of each node.
- arrays of numbers: base64 of uint32 (little-endian).
"""

from base64 import b64decode, b64encode
from collections.abc import Collection, Iterator, Mapping
from itertools import accumulate, chain, pairwise, product, repeat
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from traceanalyzer.capture_file.document import OF_ANOTHER, OF_OP, CaptureFile, Json
from traceanalyzer.capture_file.function_records import UNKNOWN
from traceanalyzer.format import printable

FORMAT: Final = "traceanalyzer.placement"
VERSION: Final = 1

_COLUMNS: Final = ("names", "ops", "origin_functions", "origin_nodes")
_TENSOR: Final = ("dtype", "device", "backing_device", "resource", "shape")
_TEXTS_OF_TENSOR: Final = slice(3)
_LENGTHS: Final = "columns differ in length"
_Record = TypeVar("_Record")
# Exceptions of plain code if a value has an unexpected type.
NOT_AS_EXPECTED: Final = (
    *(msgspec.ValidationError, AttributeError, IndexError, KeyError),
    *(TypeError, ValueError, RecursionError),
)


class DamagedDocumentError(Exception):
    """Raised if JSON is not a valid capture file; the message says why."""


def document_of(capture_file: CaptureFile) -> dict[str, Json]:
    """Convert a capture file's records to JSON."""
    whole = msgspec.to_builtins(capture_file, enc_hook=_packed, order="deterministic")
    strings: dict[str, int] = {}
    for signature, side in _sides(whole):
        signature[side] = [[*tensor.values()] for tensor in signature[side]]
    for instance in _instances(whole):
        graph, inputs = instance["input"], instance["input"]["inputs"]
        graph["arity"], graph["inputs"] = [*map(len, inputs)], [*chain.from_iterable(inputs)]
    for columns, key in _texts(whole):
        columns[key] = [strings.setdefault(text, len(strings)) for text in columns[key]]
    frames, scopes = whole["frames"], whole["scopes"]
    return {
        "format": FORMAT,
        "version": VERSION,
        **whole,
        "strings": [*strings],
        "frames": [[f["file"], f["line"], f["code"], int(f["is_user"])] for f in frames],
        "frame_texts": [frame["text"] for frame in frames],
        "scopes": [[scope["device"], scope["frame"]] for scope in scopes],
        "scope_origins": [scope["origin"] for scope in scopes],
    }


def _instances(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    return chain.from_iterable(function["instances"] for function in document["functions"])


def _sides(document: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    return product(document["signatures"], ("inputs", "outputs"))


def _texts(document: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the container and key of each text column that is stored in `strings`."""
    for definition in document["definitions"]:
        yield definition, "nodes"
    for instance in _instances(document):
        graph = instance["input"]
        yield from ((instance, "assigned"), (graph, "devices"), (graph, "inputs"))
        yield from product((graph, *instance["partitions"]), _COLUMNS)
    for signature, side in _sides(document):
        yield from zip(signature[side], repeat(_TEXTS_OF_TENSOR))


def _packed(numbers: NDArray[np.uint32]) -> str:
    return b64encode(numbers.astype("<u4").tobytes()).decode("ascii")


def capture_file_of(document: Mapping[str, Any]) -> CaptureFile:
    """Convert a capture file's JSON to records. This modifies the JSON.

    Raises:
        DamagedDocumentError: A key is missing or has a wrong type, or an index is out of range.
    """
    try:
        found = record(CaptureFile, _plain(document))
    except NOT_AS_EXPECTED as error:
        why = f"`{error}` is missing" if isinstance(error, KeyError) else printable(str(error))
        raise DamagedDocumentError(why) from error
    check(found)
    return found


def record(kind: type[_Record], value: Any) -> _Record:  # noqa: ANN401 - a value of JSON
    """Convert JSON to a record, validating its fields and dropping unknown keys.

    Raises:
        msgspec.ValidationError: A key is missing or has a wrong type.
    """
    return msgspec.convert(value, kind, dec_hook=_unpacked)


def _unpacked(_: type, text: str) -> NDArray[np.uint32]:
    numbers = np.frombuffer(b64decode(text, validate=True), "<u4")
    return numbers.astype(np.uint32, copy=False)


def _plain(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON with records as objects, and with texts instead of indices into `strings`."""
    strings: list[str] = document["strings"]
    for columns, key in _texts(document):
        if min(columns[key], default=0) < 0:
            raise IndexError
        columns[key] = tuple(map(strings.__getitem__, columns[key]))
    for signature, side in _sides(document):
        signature[side] = [dict(zip(_TENSOR, each, strict=True)) for each in signature[side]]
    for instance in _instances(document):
        graph = instance["input"]
        ends = [*accumulate(graph["arity"], initial=0)]
        if min(graph["arity"], default=0) < 0 or ends[-1] != len(graph["inputs"]):
            raise ValueError(_LENGTHS)
        graph["inputs"] = [graph["inputs"][begin:end] for begin, end in pairwise(ends)]
    frames, scopes = document["frames"], document["scopes"]
    lines = document.get("frame_texts", [None] * len(frames))
    origins = document.get("scope_origins", [None] * len(scopes))
    sizes = len(document["signatures"]), len(document["resources"])
    return {
        **document,
        "frames": [
            {"file": file, "line": line, "code": code, "is_user": bool(is_user), "text": text}
            for (file, line, code, is_user), text in zip(frames, lines, strict=True)
        ],
        "scopes": [
            {"device": device, "frame": frame, "origin": known_origin(origin, *sizes)}
            for (device, frame), origin in zip(scopes, origins, strict=True)
        ],
    }


def known_origin(origin: int | None, signatures: int, resources: int) -> int | None:
    """Return an origin, or `OF_ANOTHER` if it refers to a missing signature or resource."""
    is_known = origin is None or OF_OP - signatures < origin < resources
    return origin if is_known else OF_ANOTHER


def check(capture_file: CaptureFile) -> None:
    """Check all indices and column lengths.

    Raises:
        DamagedDocumentError: An index is out of range, or columns differ in length.
    """
    for columns in _equal_columns(capture_file):
        if len({*map(len, columns)}) > 1:
            raise DamagedDocumentError(_LENGTHS)
    for pool, lowest, indices in _indices(capture_file):
        size = len(getattr(capture_file, pool))
        if indices and (min(indices) < lowest or max(indices) >= size):
            msg = f"an index into `{pool}` is out of range"
            raise DamagedDocumentError(msg)


def _equal_columns(capture_file: CaptureFile) -> Iterator[tuple[Any, ...]]:
    for each in capture_file.definitions:
        yield each.nodes, each.frames, each.scopes, each.libraries or each.nodes
    for instance in chain.from_iterable(f.instances for f in capture_file.functions):
        graph = instance.input
        yield graph.names, graph.inputs, graph.devices, instance.assigned
        for columns in (graph, *instance.partitions):
            yield columns.attributes, *(getattr(columns, name) for name in _COLUMNS)
    for sequence in capture_file.sequences:
        yield sequence.signatures, sequence.counts


def _indices(c: CaptureFile) -> Iterator[tuple[str, int, Collection[int]]]:
    """Yield the name of a pool, the lowest valid index, and the indices to check."""
    frames = [*(scope.frame for scope in c.scopes), *(choice.frame for choice in c.visibility)]
    frames += [at for s in c.signatures for at in (s.frame, s.scope_frame, s.library)]
    frames += [*(error.handler for error in c.errors), *(each.frame for each in c.tracings)]
    yield "frames", UNKNOWN, frames
    yield "frames", 0, [*c.chosen, *(at for error in c.errors for at in error.raised)]
    for definition in c.definitions:
        yield "frames", UNKNOWN, (*definition.frames, *definition.libraries)
        yield "scopes", 0, [at for stack in {*definition.scopes} for at in stack or ()]
    for function in c.functions:
        for instance in function.instances:
            for graph in (instance.input, *instance.partitions):
                yield "attributes", UNKNOWN, graph.attributes
    for signature in c.signatures:
        tensors = (*signature.inputs, *signature.outputs)
        yield "scopes", 0, signature.scopes
        yield "attributes", UNKNOWN, [signature.attributes]
        yield "resources", 0, [t.resource for t in tensors if t.resource is not None]
    yield "signatures", UNKNOWN, [resource.signature for resource in c.resources]
    for sequence in c.sequences:
        yield "signatures", 0, np.unique(sequence.signatures).tolist()
        yield "sessions", UNKNOWN, [sequence.session]
