"""From a capture file's JSON to its records; nothing in the file is trusted.

Every type and every index is checked here, once, so that no reader of the records need do so.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import numpy as np

from traceanalyzer.capture_file.document import (
    LARGEST,
    NO_SOURCE,
    OF_ANOTHER,
    OF_OP,
    UNKNOWN,
    CaptureFile,
    CaughtError,
    Definition,
    EagerSequence,
    Frame,
    Function,
    Graph,
    Instance,
    Levels,
    Note,
    Partition,
    RegisteredKernel,
    Resource,
    Scope,
    Session,
    SessionConfig,
    Signature,
    Tensor,
    VisibilityChoice,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from traceanalyzer.capture_file.document import Attributes, Json, Shape

    _Object: TypeAlias = dict[str, Json]
    _Record = TypeVar("_Record")

__all__ = ["DamagedDocumentError", "Decoder", "capture_file_of"]

_TENSOR_PARTS: Final = 5


class DamagedDocumentError(Exception):
    """The JSON is not that of a capture file; its text says where."""


def capture_file_of(document: Json) -> CaptureFile:
    """Return the records of a capture file's JSON.

    Raises:
        DamagedDocumentError: A key is missing, of a wrong type, or points nowhere.
    """
    whole = _object(document, "document")
    decoder = Decoder(
        strings=_texts(whole, "strings"),
        frames=_list(whole, "frames"),
        scopes=_list(whole, "scopes"),
        origins=_list(whole, "scope_origins") if "scope_origins" in whole else (),
        attributes=_list(whole, "attributes"),
        signatures=len(_list(whole, "signatures")),
        resources=len(_list(whole, "resources")),
        sessions=len(_list(whole, "sessions")),
    )
    return CaptureFile(
        tool=_text(whole, "tool"),
        host=_text(whole, "host"),
        complete=_flag(whole, "complete"),
        command=None if whole.get("command") is None else tuple(_texts(whole, "command")),
        environment=_object_or_none(whole, "environment"),
        devices=_object_or_none(whole, "devices"),
        gpus=tuple(_object(gpu, "gpus") for gpu in _list(whole, "gpus")),
        log=tuple(_texts(whole, "log")),
        log_source=_text(whole, "log_source"),
        sessions=_each(whole, "sessions", decoder.session),
        notes=_each(whole, "notes", decoder.note),
        errors=_each(whole, "errors", decoder.error),
        visibility=_each(whole, "visibility", decoder.visibility_choice)
        if "visibility" in whole
        else (),
        session_configs=_each(whole, "session_configs", decoder.session_config)
        if "session_configs" in whole
        else (),
        frames=_with_texts(decoder.frames, whole),
        scopes=decoder.scopes,
        chosen=frozenset(_indices(whole, "chosen", len(decoder.frames), low=0))
        if "chosen" in whole
        else frozenset(),
        attributes=decoder.attributes,
        definitions=_each(whole, "definitions", decoder.definition),
        functions=_each(whole, "functions", decoder.function),
        signatures=_each(whole, "signatures", decoder.signature),
        resources=_each(whole, "resources", decoder.resource),
        kernels=_each(whole, "kernels", decoder.kernel) if "kernels" in whole else (),
        sequences=_each(whole, "sequences", decoder.sequence),
        omitted={k: _whole(v, k) for k, v in _object(whole.get("omitted"), "omitted").items()},
    )


class Decoder:
    """Decodes records that point into pools, checking each index against its pool.

    Attributes:
        frames: The pool of frames.
        scopes: The pool of scopes.
        attributes: The pool of attribute sets.
    """

    def __init__(  # noqa: PLR0913 - one for each pool
        self,
        *,
        strings: list[str],
        frames: list[Json],
        scopes: list[Json],
        origins: Sequence[Json] = (),
        attributes: list[Json],
        signatures: int,
        resources: int,
        sessions: int,
    ) -> None:
        """Decode the pools.

        Args:
            strings: The pool of texts.
            frames: The pool of frames, as JSON.
            scopes: The pool of scopes, as JSON.
            origins: The origin of each, as JSON; none where they were not recorded.
            attributes: The pool of attribute sets, as JSON.
            signatures: How many signatures there are.
            resources: How many resources there are.
            sessions: How many sessions there are.

        Raises:
            DamagedDocumentError: A pool is none.
        """
        self._strings = strings
        self.frames = tuple(map(_frame, frames))
        if origins:
            _equally_long("scope_origins", scopes, origins)
        self.scopes = tuple(
            replace(self._scope(scope), origin=_origin(origin, resources, signatures))
            for scope, origin in zip(scopes, origins or (None,) * len(scopes), strict=True)
        )
        self.attributes: tuple[Attributes, ...] = tuple(
            _object(a, "attributes") for a in attributes
        )
        self._signatures = signatures
        self._resources = resources
        self._sessions = sessions

    def session(self, record: _Object) -> Session:
        """Decode a session."""
        return Session(
            trace=_text_or_none(record, "trace"),
            method=_text(record, "method"),
            requested=_levels(record, "requested"),
            effective=_levels(record, "effective"),
            start_ns=_whole(record.get("start_ns"), "start_ns"),
            stop_ns=_whole_or_none(record, "stop_ns"),
            reason=_text(record, "reason"),
            proof=_text_or_none(record, "proof"),
        )

    def note(self, record: _Object) -> Note:
        """Decode a note."""
        return Note(
            id=_text(record, "id"),
            severity=_text(record, "severity"),
            message=_text(record, "message"),
        )

    def error(self, record: _Object) -> CaughtError:
        """Decode an error that was seen."""
        return CaughtError(
            where=_text(record, "where"),
            type=_text(record, "type"),
            message=_text(record, "message"),
            raised=tuple(_indices(record, "raised", len(self.frames), low=0)),
            handler=_index(record, "handler", len(self.frames)),
            call=_text_or_none(record, "call"),
        )

    def visibility_choice(self, record: _Object) -> VisibilityChoice:
        """Decode a choice of visible GPUs."""
        return VisibilityChoice(
            how=_text(record, "how"),
            value=_text(record, "value"),
            manner=_text_or_none(record, "manner") or NO_SOURCE,
            frame=_index(record, "frame", len(self.frames)),
        )

    def session_config(self, record: _Object) -> SessionConfig:
        """Decode the configuration of a session of TensorFlow 1."""
        counts = _object(record.get("device_count"), "device_count")
        return SessionConfig(
            is_own=_flag(record, "is_own"),
            is_local=_flag(record, "is_local"),
            soft_placement=_flag(record, "soft_placement"),
            log_placement=_flag(record, "log_placement"),
            device_types=tuple(_texts(record, "device_types")) if "device_types" in record else (),
            device_count={key: _whole(value, key) for key, value in counts.items()},
            memory_fraction=_number_or_none(record, "memory_fraction"),
            rewrites=_object(record.get("rewrites"), "rewrites"),
        )

    def definition(self, record: _Object) -> Definition:
        """Decode a definition."""
        definition = Definition(
            name=_text(record, "name"),
            nodes=self._column(record, "nodes"),
            frames=tuple(_indices(record, "frames", len(self.frames))),
            libraries=tuple(_indices(record, "libraries", len(self.frames)))
            if "libraries" in record
            else (),
            scopes=tuple(map(self._stack, _list(record, "scopes"))),
            shapes=tuple(map(_shapes, _list(record, "shapes"))) if "shapes" in record else (),
        )
        _equally_long("definition", definition.nodes, definition.frames, definition.scopes)
        for column in (definition.shapes, definition.libraries):
            if column:
                _equally_long("definition", definition.nodes, column)
        return definition

    def function(self, record: _Object) -> Function:
        """Decode a function with its instances."""
        return Function(
            name=_text(record, "name"), instances=_each(record, "instances", self._instance)
        )

    def signature(self, record: _Object) -> Signature:
        """Decode a signature."""
        return Signature(
            op=_text(record, "op"),
            is_function=_flag(record, "is_function"),
            scope=_text(record, "scope"),
            scope_frame=_index(record, "scope_frame", len(self.frames)),
            scopes=self._stack(record.get("scopes")) or (),
            frame=_index(record, "frame", len(self.frames)),
            library=_index(record, "library", len(self.frames)) if "library" in record else UNKNOWN,
            attributes=_index(record, "attributes", len(self.attributes)),
            inputs=self._tensors(record, "inputs"),
            outputs=self._tensors(record, "outputs"),
        )

    def resource(self, record: _Object) -> Resource:
        """Decode a resource."""
        return Resource(
            signature=_index(record, "signature", self._signatures),
            name=_text(record, "name"),
            dtype=_text(record, "dtype"),
            shape=_shape(record.get("shape")),
            bytes=_whole_or_none(record, "bytes"),
            device=_text(record, "device"),
        )

    def kernel(self, record: _Object) -> RegisteredKernel:
        """Decode a kernel."""
        constraints = _object(record.get("constraints"), "constraints")
        return RegisteredKernel(
            op=_text(record, "op"),
            device_type=_text(record, "device_type"),
            constraints={name: _allowed(constraints, name) for name in constraints},
            host_memory_args=tuple(_texts(record, "host_memory_args")),
            priority=_whole(record.get("priority"), "priority"),
            label=_text(record, "label"),
        )

    def sequence(self, record: _Object) -> EagerSequence:
        """Decode a thread's sequence."""
        signatures, counts = _numbers(record, "signatures"), _numbers(record, "counts")
        _equally_long("sequence", signatures, counts)
        if len(signatures) and int(signatures.max()) >= self._signatures:
            raise DamagedDocumentError(_points_nowhere("signatures"))
        return EagerSequence(
            thread=_whole(record.get("thread"), "thread"),
            name=_text(record, "name"),
            session=_index(record, "session", self._sessions),
            first_index=_whole(record.get("first_index"), "first_index"),
            signatures=signatures,
            counts=counts,
        )

    def _instance(self, record: _Object) -> Instance:
        graph = self._graph(_object(record.get("input"), "input"))
        assigned = self._column(record, "assigned")
        _equally_long("instance", graph.names, assigned)
        return Instance(
            input=graph,
            assigned=assigned,
            partitions=_each(record, "partitions", self._partition),
            count=_whole(record.get("count", 1), "count"),
        )

    def _graph(self, record: _Object) -> Graph:
        arity = _indices(record, "arity", LARGEST, low=0)
        inputs = self._column(record, "inputs")
        if sum(arity) != len(inputs):
            raise DamagedDocumentError(_of_different_lengths("inputs"))
        ends = np.cumsum([0, *arity]).tolist()
        graph = Graph(
            names=self._column(record, "names"),
            ops=self._column(record, "ops"),
            inputs=tuple([inputs[begin:end] for begin, end in pairwise(ends)]),
            devices=self._column(record, "devices"),
            attributes=self._sets(record),
            origin_functions=self._column(record, "origin_functions"),
            origin_nodes=self._column(record, "origin_nodes"),
            producer=_whole(record.get("producer", 0), "producer"),
        )
        _equally_long("graph", graph.inputs, graph.devices, *_shared_columns(graph))
        return graph

    def _partition(self, record: _Object) -> Partition:
        partition = Partition(
            device=_text(record, "device"),
            names=self._column(record, "names"),
            ops=self._column(record, "ops"),
            attributes=self._sets(record),
            origin_functions=self._column(record, "origin_functions"),
            origin_nodes=self._column(record, "origin_nodes"),
        )
        _equally_long("partition", *_shared_columns(partition))
        return partition

    def _column(self, record: _Object, key: str) -> tuple[str, ...]:
        indices = _indices(record, key, len(self._strings), low=0)
        return tuple(map(self._strings.__getitem__, indices))

    def _sets(self, record: _Object) -> tuple[int, ...]:
        if record.get("attributes") is None:
            return (UNKNOWN,) * len(_list(record, "names"))
        return tuple(_indices(record, "attributes", len(self.attributes)))

    def _stack(self, value: Json) -> tuple[int, ...] | None:
        if value is None:
            return None
        return tuple(_checked(value, "scopes", len(self.scopes), low=0))

    def _scope(self, value: Json) -> Scope:
        match value:
            case [str(device), int(frame)] if UNKNOWN <= frame < len(self.frames):
                return Scope(device=device, frame=int(frame))
        raise DamagedDocumentError(_not_a("scopes", "pair of a device and a frame"))

    def _tensors(self, record: _Object, key: str) -> tuple[Tensor, ...]:
        return tuple([self._tensor(value) for value in _list(record, key)])

    def _tensor(self, value: Json) -> Tensor:
        if not isinstance(value, list) or len(value) != _TENSOR_PARTS:
            raise DamagedDocumentError(_not_a("a tensor", "type, two devices, resource and shape"))
        *texts, resource, sizes = value
        parts = _checked(texts, "a tensor", len(self._strings), low=0)
        dtype, device, backing_device = map(self._strings.__getitem__, parts)
        if resource is not None:
            resource = _checked([resource], "resource", self._resources, low=0)[0]
        return Tensor(
            dtype=dtype,
            device=device,
            backing_device=backing_device,
            resource=resource,
            shape=_shape(sizes),
        )


def _shared_columns(graph: Graph | Partition) -> tuple[Sequence[object], ...]:
    return (graph.names, graph.ops, graph.attributes, graph.origin_functions, graph.origin_nodes)


def _origin(value: Json, resources: int, signatures: int) -> int | None:
    """Return the origin of a scope; of one that a killed capture did not write, `OF_ANOTHER`."""
    if value is None:
        return None
    origin = _checked([value], "scope_origins", LARGEST, low=-LARGEST)[0]
    return origin if OF_OP - signatures < origin < resources else OF_ANOTHER


def _frame(value: Json) -> Frame:
    match value:
        case [str(file), int(line), str(code), int(is_user)]:
            return Frame(file=file, line=int(line), code=code, is_user=bool(is_user))
    raise DamagedDocumentError(_not_a("frames", "file, line, code name and 0 or 1"))


def _with_texts(frames: tuple[Frame, ...], whole: _Object) -> tuple[Frame, ...]:
    """Return frames with the text of their lines, which older capture files do not have."""
    if "frame_texts" not in whole:
        return frames
    texts = _list(whole, "frame_texts")
    _equally_long("frame_texts", frames, texts)
    if not set(map(type, texts)) <= {str, type(None)}:
        raise DamagedDocumentError(_not_a("frame_texts", "list of texts and nulls"))
    return tuple(
        frame if text is None else replace(frame, text=text)  # type: ignore[arg-type]
        for frame, text in zip(frames, texts, strict=True)
    )


def _levels(record: _Object, key: str) -> Levels | None:
    levels = _object_or_none(record, key)
    if levels is None:
        return None
    return Levels(
        host_tracer_level=_whole(levels.get("host_tracer_level"), "host_tracer_level"),
        device_tracer_level=_whole(levels.get("device_tracer_level"), "device_tracer_level"),
        python_tracer_level=_whole(levels.get("python_tracer_level"), "python_tracer_level"),
    )


def _shape(value: Json) -> Shape:
    return None if value is None else tuple(_checked(value, "shape", LARGEST, low=UNKNOWN))


def _shapes(value: Json) -> tuple[Shape, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise DamagedDocumentError(_not_a("shapes", "list of shapes"))
    return tuple(map(_shape, value))


def _numbers(record: _Object, key: str) -> NDArray[np.uint32]:
    text = _text(record, key)
    try:
        data = b64decode(text, validate=True)
        return np.frombuffer(data, "<u4").astype(np.uint32, copy=False)
    except (binascii.Error, ValueError) as error:  # ValueError: not of whole numbers, not ASCII
        raise DamagedDocumentError(_not_a(key, "base64 of whole numbers of 32 bits")) from error


def _each(record: _Object, key: str, decode: Callable[[_Object], _Record]) -> tuple[_Record, ...]:
    return tuple([decode(_object(item, key)) for item in _list(record, key)])


def _indices(record: _Object, key: str, size: int, *, low: int = UNKNOWN) -> list[int]:
    return _checked(record.get(key), key, size, low=low)


def _checked(value: Json, key: str, size: int, *, low: int) -> list[int]:
    """Return a list of indices from `low` to below `size`."""
    if not isinstance(value, list) or not set(map(type, value)) <= {int}:
        raise DamagedDocumentError(_not_a(key, "list of whole numbers"))
    indices: list[int] = value  # type: ignore[assignment]  # as was just seen
    if indices and (min(indices) < low or max(indices) >= size):
        raise DamagedDocumentError(_points_nowhere(key))
    return indices


def _index(record: _Object, key: str, size: int) -> int:
    return _checked([record.get(key)], key, size, low=UNKNOWN)[0]


def _equally_long(what: str, *columns: Sequence[object] | NDArray[np.uint32]) -> None:
    if len(set(map(len, columns))) > 1:
        raise DamagedDocumentError(_of_different_lengths(what))


def _list(record: _Object, key: str) -> list[Json]:
    value = record.get(key)
    if not isinstance(value, list):
        raise DamagedDocumentError(_not_a(key, "list"))
    return value


def _texts(record: _Object, key: str) -> list[str]:
    value = _list(record, key)
    if not set(map(type, value)) <= {str}:
        raise DamagedDocumentError(_not_a(key, "list of texts"))
    return value  # type: ignore[return-value]  # as was just seen


def _allowed(record: _Object, key: str) -> tuple[str | int | bool, ...]:
    value = _list(record, key)
    if not set(map(type, value)) <= {str, int, bool}:
        raise DamagedDocumentError(_not_a(key, "list of texts, whole numbers, true and false"))
    return tuple(value)  # type: ignore[arg-type]  # as was just seen


def _object(value: Json, key: str) -> _Object:
    if not isinstance(value, dict):
        raise DamagedDocumentError(_not_a(key, "object"))
    return value


def _object_or_none(record: _Object, key: str) -> _Object | None:
    value = record.get(key)
    return None if value is None else _object(value, key)


def _text(record: _Object, key: str) -> str:
    value = record.get(key)
    if not isinstance(value, str):
        raise DamagedDocumentError(_not_a(key, "text"))
    return value


def _text_or_none(record: _Object, key: str) -> str | None:
    return None if record.get(key) is None else _text(record, key)


def _flag(record: _Object, key: str) -> bool:
    value = record.get(key)
    if not isinstance(value, bool):
        raise DamagedDocumentError(_not_a(key, "true or false"))
    return value


def _whole(value: Json, key: str) -> int:
    if type(value) is not int or abs(value) > LARGEST:  # a bool is an int to isinstance
        raise DamagedDocumentError(_not_a(key, "whole number"))
    return value


def _whole_or_none(record: _Object, key: str) -> int | None:
    value = record.get(key)
    return None if value is None else _whole(value, key)


def _number_or_none(record: _Object, key: str) -> float | None:
    value = record.get(key)
    if value is None:
        return None
    if type(value) not in {int, float} or not abs(value) <= LARGEST:  # type: ignore[arg-type]
        raise DamagedDocumentError(_not_a(key, "number"))
    return float(value)  # type: ignore[arg-type]


def _not_a(key: str, what: str) -> str:
    return f"`{key}` is not {what}"


def _points_nowhere(key: str) -> str:
    return f"`{key}` points to something that is not there"


def _of_different_lengths(key: str) -> str:
    return f"the columns of `{key}` differ in length"
