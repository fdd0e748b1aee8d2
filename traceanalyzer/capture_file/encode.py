"""From the records of a capture file to its JSON; `decode` is the way back."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import asdict
from typing import TYPE_CHECKING

from traceanalyzer.capture_file.document import FORMAT, UNKNOWN, VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from traceanalyzer.capture_file.document import (
        CaptureFile,
        Definition,
        EagerSequence,
        Function,
        Graph,
        Instance,
        Json,
        Partition,
        RegisteredKernel,
        Signature,
        Tensor,
    )

__all__ = ["document_of"]


def document_of(capture_file: CaptureFile) -> dict[str, Json]:
    """Return the JSON of a capture file."""
    strings = _Strings()
    definitions = [_definition(d, strings) for d in capture_file.definitions]
    functions = [_function(f, strings) for f in capture_file.functions]
    signatures = [_signature(s, strings) for s in capture_file.signatures]
    return {
        "format": FORMAT,
        "version": VERSION,
        "tool": capture_file.tool,
        "host": capture_file.host,
        "complete": capture_file.complete,
        "command": None if capture_file.command is None else list(capture_file.command),
        "environment": None if capture_file.environment is None else dict(capture_file.environment),
        "devices": None if capture_file.devices is None else dict(capture_file.devices),
        "gpus": [dict(gpu) for gpu in capture_file.gpus],
        "log": list(capture_file.log),
        "log_source": capture_file.log_source,
        "sessions": [asdict(s) for s in capture_file.sessions],
        "notes": [asdict(n) for n in capture_file.notes],
        "errors": [{**asdict(e), "raised": list(e.raised)} for e in capture_file.errors],
        "visibility": [asdict(c) for c in capture_file.visibility],
        "session_configs": [asdict(c) for c in capture_file.session_configs],
        "strings": strings.all(),
        "frames": [[f.file, f.line, f.code, int(f.is_user)] for f in capture_file.frames],
        "frame_texts": [f.text for f in capture_file.frames],
        "scopes": [[s.device, s.frame] for s in capture_file.scopes],
        "chosen": [*sorted(capture_file.chosen)],
        "scope_origins": [s.origin for s in capture_file.scopes],
        "attributes": [dict(a) for a in capture_file.attributes],
        "definitions": definitions,
        "functions": functions,
        "signatures": signatures,
        "resources": [
            {**asdict(r), "shape": _list_or_none(r.shape)} for r in capture_file.resources
        ],
        "kernels": [_kernel(k) for k in capture_file.kernels],
        "sequences": [_sequence(s) for s in capture_file.sequences],
        "omitted": dict(capture_file.omitted),
    }


class _Strings:
    """The pool of texts, as it grows."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {}

    def column(self, texts: Iterable[str]) -> list[Json]:
        index = self._index
        return [index.setdefault(text, len(index)) for text in texts]

    def all(self) -> list[Json]:
        return list(self._index)


def _definition(definition: Definition, strings: _Strings) -> Json:
    return {
        "name": definition.name,
        "nodes": strings.column(definition.nodes),
        "frames": list(definition.frames),
        "libraries": list(definition.libraries),
        "scopes": [_list_or_none(stack) for stack in definition.scopes],
        "shapes": [
            None if of_node is None else [_list_or_none(shape) for shape in of_node]
            for of_node in definition.shapes
        ],
    }


def _function(function: Function, strings: _Strings) -> Json:
    return {
        "name": function.name,
        "instances": [_instance(i, strings) for i in function.instances],
    }


def _instance(instance: Instance, strings: _Strings) -> Json:
    graph = instance.input
    return {
        "count": instance.count,
        "input": {
            "producer": graph.producer,
            **_shared_columns(graph, strings),
            "arity": [len(inputs) for inputs in graph.inputs],
            "inputs": strings.column(text for inputs in graph.inputs for text in inputs),
            "devices": strings.column(graph.devices),
        },
        "assigned": strings.column(instance.assigned),
        "partitions": [
            {"device": p.device, **_shared_columns(p, strings)} for p in instance.partitions
        ],
    }


def _shared_columns(graph: Graph | Partition, strings: _Strings) -> dict[str, Json]:
    known = set(graph.attributes)
    return {
        "names": strings.column(graph.names),
        "ops": strings.column(graph.ops),
        "attributes": None if known == {UNKNOWN} else list(graph.attributes),
        "origin_functions": strings.column(graph.origin_functions),
        "origin_nodes": strings.column(graph.origin_nodes),
    }


def _signature(signature: Signature, strings: _Strings) -> Json:
    return {
        "op": signature.op,
        "is_function": signature.is_function,
        "scope": signature.scope,
        "scope_frame": signature.scope_frame,
        "library": signature.library,
        "scopes": list(signature.scopes),
        "frame": signature.frame,
        "attributes": signature.attributes,
        "inputs": [_tensor(t, strings) for t in signature.inputs],
        "outputs": [_tensor(t, strings) for t in signature.outputs],
    }


def _tensor(tensor: Tensor, strings: _Strings) -> Json:
    texts = strings.column((tensor.dtype, tensor.device, tensor.backing_device))
    return [*texts, tensor.resource, _list_or_none(tensor.shape)]


def _kernel(kernel: RegisteredKernel) -> Json:
    return {
        **asdict(kernel),
        "constraints": {name: list(values) for name, values in kernel.constraints.items()},
        "host_memory_args": list(kernel.host_memory_args),
    }


def _sequence(sequence: EagerSequence) -> Json:
    return {
        "thread": sequence.thread,
        "name": sequence.name,
        "session": sequence.session,
        "first_index": sequence.first_index,
        "signatures": _base64(sequence.signatures),
        "counts": _base64(sequence.counts),
    }


def _base64(numbers: NDArray[np.uint32]) -> str:
    return b64encode(numbers.astype("<u4").tobytes()).decode("ascii")


def _list_or_none(numbers: Sequence[int] | None) -> list[Json] | None:
    return None if numbers is None else list(numbers)
