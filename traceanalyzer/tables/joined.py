"""The join: what a capture file tells of the ops of a trace.

Eager ops are told apart before they are gathered into rows, by line, scope and types: their type is
all that a trace has of them. Ops of graphs have a function and a name, and are looked up once their
rows stand.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.tables.eager_alignment import eager_signatures
from traceanalyzer.tables.graph_nodes import GraphNodes
from traceanalyzer.tables.host_ops import CONSTANTS, TF_DATA
from traceanalyzer.tables.text_columns import concatenate
from traceanalyzer.tables.vocabulary import Kind
from traceanalyzer.trace.columns import Strings

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from traceanalyzer.capture_file.document import CaptureFile, Frame, Signature, Tensor
    from traceanalyzer.tables.host_ops import HostOps


_AS_OPTIONAL: Final = "IteratorGetNextAsOptional"  # iterator_ops.cc
# Of functions: keras/src/backend/tensorflow/trainer.py, `multi_step_on_iterator` (3.15).
_KERAS_STEP: Final = "_step_on_iterator"
_ON_OPTIONALS: Final = frozenset(  # optional_ops.cc
    {"OptionalFromValue", "OptionalGetValue", "OptionalHasValue", "OptionalNone"}
)
_THIS_PROCESS: Final = "/job:localhost/replica:0/task:0"


@dataclass(frozen=True, kw_only=True)
class OpRecord:
    """What a capture file tells of one row of the op table.

    Attributes:
        frame: The user's line that asked for it, or None where that is not known.
        requested_device: The device asked for, in this process without naming it; "" for none,
            None where not known.
        input_types: Types of its inputs, `float;int32`; None where not known.
        output_types: Types of its outputs; likewise.
        device: The device it was placed on, full string; None where not known.
        devices: Where calls placed it differently: on which devices, "" for one that is not known.
        is_device_certain: Whether that is proof.
        is_on_host: Whether all it made was in host memory, although its device is no CPU.
        has_host_inputs: Whether, if so, all it took was there too.
        function: The function that was instantiated; "" for an eager op.
        node: The node of its graph; likewise.
        signatures: The signatures of an eager op; empty for one of a graph.
    """

    frame: Frame | None
    requested_device: str | None
    input_types: str | None = None
    output_types: str | None = None
    device: str | None = None
    devices: tuple[str, ...] = ()
    is_device_certain: bool = True
    is_on_host: bool = False
    has_host_inputs: bool = False
    function: str = ""
    node: str = ""
    signatures: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class EagerOps:
    """The eager ops of a host that have a record.

    Attributes:
        records: The distinct records: those that differ by line, scope, types or place.
        record: Index into `records` for each occurrence of `HostOps`, -1 for none; int32.
        calls: The signatures with which each function was called, by its definition's name.
    """

    records: tuple[OpRecord, ...]
    record: NDArray[np.int32]
    calls: dict[str, tuple[int, ...]]


@dataclass(frozen=True, eq=False, kw_only=True)
class Joined:
    """What a capture file tells of one host's op table.

    Attributes:
        records: The record of each row, None where there is none.
        calls: As in `EagerOps`.
        own_types: Types that are mostly those of tf.data's ops, and here of the program's own.
    """

    records: tuple[OpRecord | None, ...]
    calls: dict[str, tuple[int, ...]]
    own_types: frozenset[str] = frozenset()


def join_eager(
    host: HostOps, capture_file: CaptureFile, session: int | None
) -> tuple[HostOps, EagerOps]:
    """Find the records of eager ops.

    Args:
        host: The op occurrences of the host.
        capture_file: What was recorded.
        session: Index of the profiler session that wrote the trace, or None where not known.

    Returns:
        The occurrences with the types and devices that the records tell, and the records.
    """
    plane = host.plane
    of_event = eager_signatures(plane, host.order, capture_file, session)
    signature = np.where(host.kind == Kind.EAGER_OP, of_event[host.event], -1)
    records, record_of_signature = _distinct_records(
        capture_file, np.unique(signature[signature >= 0])
    )
    record = np.append(record_of_signature, np.int32(-1))[signature]
    calls: dict[str, tuple[int, ...]] = {}
    is_call = (of_event >= 0) & (host.names.kind[plane.name_of] == Kind.FUNCTION_CALL)
    for number in np.unique(of_event[is_call]).tolist():
        name = capture_file.signatures[number].op
        calls[name] = (*calls.get(name, ()), number)
    device, told = _overlaid(host.device, record, tuple(r.device for r in records))
    is_certain = np.array([r.is_device_certain for r in records] + [False])[record]
    types, _ = _overlaid(host.input_types, record, tuple(r.input_types for r in records))
    joined = replace(
        host,
        device=device,
        device_is_proved=np.where(told, is_certain, host.device_is_proved),
        input_types=types,
    )
    return joined, EagerOps(records=records, record=record, calls=calls)


def join_rows(
    rows: pd.DataFrame, host: HostOps | None, capture_file: CaptureFile, eager: EagerOps | None
) -> Joined:
    """Find the record of each row.

    Args:
        rows: Rows of a host, as `OpOccurrences` has them.
        host: The op occurrences of the host.
        capture_file: What was recorded.
        eager: The records of eager ops that the rows refer to.
    """
    nodes = GraphNodes(capture_file)
    definitions = {} if host is None else host.definitions
    known = () if eager is None else eager.records
    columns = ("function", "name", "type", "is_eager", "is_xla", "record")
    records: list[OpRecord | None] = []
    for function, name, op_type, is_eager, is_xla, record in zip(
        *(rows[c] for c in columns), strict=True
    ):
        if is_eager or is_xla:
            records.append(known[record] if record >= 0 else None)
        else:
            records.append(_graph_record(nodes, definitions, function, name, op_type))
    return Joined(
        records=tuple(records),
        calls={} if eager is None else eager.calls,
        own_types=frozenset() if _has_optionals_of_libraries(rows, capture_file) else _ON_OPTIONALS,
    )


def _has_optionals_of_libraries(rows: pd.DataFrame, capture_file: CaptureFile) -> bool:
    """Return whether elements of an iterator are taken as optionals, or Keras makes steps.

    These return what they computed as an optional, which is empty where the data ended. Otherwise
    an optional is a value of the program's own, or one that TensorFlow keeps for a gradient
    (`_wrap_intermediates`, python/ops/cond_v2.py).
    """
    known = {*rows["type"], *(signature.op for signature in capture_file.signatures)}
    known.update(function.name for function in capture_file.functions)
    graphs = (each.input for function in capture_file.functions for each in function.instances)
    return (
        _AS_OPTIONAL in known
        or any(_KERAS_STEP in each for each in known)
        or any(_AS_OPTIONAL in graph.ops for graph in graphs)
    )


def _graph_record(
    nodes: GraphNodes, definitions: dict[str, str], function: str | None, name: str, op_type: str
) -> OpRecord | None:
    if function is None or function == CONSTANTS:
        node = nodes.find_in_any(name, op_type)
    elif function == TF_DATA:
        node = nodes.find_in_datasets(name, op_type)
    else:
        node = nodes.find(definitions[function], name, op_type) if function in definitions else None
    if node is None:
        return None
    if function == CONSTANTS:  # made by the same line; where the node itself runs is another matter
        return OpRecord(frame=node.frame, requested_device=None)
    return OpRecord(
        frame=node.frame,
        requested_device=_request(node.requested_device),
        device=node.device,
        devices=node.devices,
        input_types=node.types.inputs,
        output_types=node.types.outputs,
        function=node.function,
        node=node.node,
    )


def _distinct_records(
    capture_file: CaptureFile, used: NDArray[np.int32]
) -> tuple[tuple[OpRecord, ...], NDArray[np.int32]]:
    """Return the records of the signatures in use, and which one each signature has."""
    alike: dict[tuple[str, OpRecord], list[int]] = {}
    for number in used.tolist():
        signature = capture_file.signatures[number]
        record = _eager_record(signature, capture_file.frame(signature.frame))
        alike.setdefault((signature.op, record), []).append(number)
    of_signature = np.full(len(capture_file.signatures), -1, np.int32)
    for k, numbers in enumerate(alike.values()):
        of_signature[numbers] = k
    records = tuple(
        replace(
            record,
            signatures=tuple(numbers),
            has_host_inputs=record.is_on_host
            and all(
                _is_cpu(t.backing_device)
                for n in numbers
                for t in capture_file.signatures[n].inputs
            ),
        )
        for (_, record), numbers in alike.items()
    )
    return records, of_signature


def _eager_record(signature: Signature, frame: Frame | None) -> OpRecord:
    # Every output of an op is on its device, whatever holds its memory (kernel_and_device.cc). One
    # without outputs goes where its resource is (placement_utils.cc, MaybePinToResourceDevice).
    resources = (t for t in signature.inputs if t.dtype == "resource")
    devices = {t.device for t in signature.outputs or resources}
    device = devices.pop() if len(devices) == 1 else ""
    away = bool(device) and not _is_cpu(device)
    return OpRecord(
        frame=frame,
        requested_device=_request(signature.scope),
        input_types=_types(signature.inputs),
        output_types=_types(signature.outputs),
        device=device or None,
        is_device_certain=bool(signature.outputs),
        is_on_host=away
        and bool(signature.outputs)
        and all(_is_cpu(t.backing_device) for t in signature.outputs),
    )


def _request(device: str | None) -> str | None:
    """Return a request as it was typed: TensorFlow completes those of eager scopes.

    What is left empty asked for no device: `tf.py_function` names the process alone.
    """
    return None if device is None else device.removeprefix(_THIS_PROCESS)


def _types(tensors: tuple[Tensor, ...]) -> str:
    return ";".join(t.dtype for t in tensors)


def _is_cpu(device: str) -> bool:
    return "/device:CPU:" in device


def _overlaid(
    column: Strings, record: NDArray[np.int32], values: tuple[str | None, ...]
) -> tuple[Strings, NDArray[np.bool_]]:
    """Return the column with what the records tell in its place, and where they do."""
    texts = tuple(v or "" for v in values)
    tells = np.array([v is not None for v in values] + [False])[record]
    both = concatenate([column, Strings(np.where(tells, record, -1).astype(np.int32), texts)])
    n = len(column)
    return Strings(np.where(tells, both.codes[n:], both.codes[:n]), both.values), tells
