"""Each op of a trace, joined with what the capture file recorded about it.

Eager ops get their record before they are gathered into rows, and have one row for each line, scope
and types: a trace has only their type. Ops of graphs have a function and a name, and are looked up
once there are rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.tables.arrays import filled, pick
from traceanalyzer.tables.eager_alignment import eager_signatures
from traceanalyzer.tables.functions import CONSTANTS, TF_DATA
from traceanalyzer.tables.graph_nodes import GraphNodes
from traceanalyzer.tables.vocabulary import Kind
from traceanalyzer.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from traceanalyzer.capture_file.document import CaptureFile, Frame, Signature, Tensor
    from traceanalyzer.tables.host_ops import HostOps
    from traceanalyzer.tables.op_occurrences import OpOccurrences


_AS_OPTIONAL: Final = "IteratorGetNextAsOptional"  # iterator_ops.cc
# Of functions: keras/src/backend/tensorflow/trainer.py, `multi_step_on_iterator` (3.15).
_KERAS_STEP: Final = "_step_on_iterator"
_ON_OPTIONALS: Final = frozenset(  # optional_ops.cc
    {"OptionalFromValue", "OptionalGetValue", "OptionalHasValue", "OptionalNone"}
)
_THIS_PROCESS: Final = "/job:localhost/replica:0/task:0"


@dataclass(frozen=True, kw_only=True)
class OpRecord:
    """What a capture file says about one row of the op table; None where that is unknown."""

    #: The user's line that created it.
    frame: Frame | None
    #: The requested device, without the name of this process; "" for none.
    requested_device: str | None
    #: Types of its inputs, `float;int32`.
    input_types: str | None = None
    output_types: str | None = None
    #: The device it was placed on, full string.
    device: str | None = None
    #: Where calls placed it differently: on which devices, "" for an unknown one.
    devices: tuple[str, ...] = ()
    #: Whether that is proof.
    is_device_certain: bool = True
    #: Whether all its results were in host memory, although its device is no CPU.
    is_on_host: bool = False
    #: Whether, if so, all its inputs were there, too.
    has_host_inputs: bool = False
    #: The function that was instantiated; "" for an eager op.
    function: str = ""
    #: The node of its graph; "" for an eager op.
    node: str = ""
    #: The signatures of an eager op; empty for one of a graph.
    signatures: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Joined:
    """What a capture file says about one host's op table."""

    #: The record of each row, None where there is none.
    records: tuple[OpRecord | None, ...]
    #: The signatures with which each function was called eagerly, by its definition's name.
    calls: dict[str, tuple[int, ...]]
    #: Types that are mostly those of tf.data's ops, and here of the program's own.
    own_types: frozenset[str] = frozenset()


def join_eager(
    host: HostOps, capture_file: CaptureFile, session: int | None
) -> tuple[HostOps, tuple[OpRecord, ...], dict[str, tuple[int, ...]]]:
    """Find the records of eager ops, and add them and their types and devices to the occurrences.

    Returns:
        The occurrences; the records that differ by line, scope, types or device; the signatures
        with which each function was called.
    """
    plane = host.plane
    of_event = eager_signatures(plane, host.order, capture_file, session)
    signature = np.where(host.kind == Kind.EAGER_OP, of_event[host.event], -1)
    records, record_of_signature = _distinct_records(
        capture_file, np.unique(signature[signature >= 0])
    )
    record = pick(record_of_signature, signature)
    calls: dict[str, tuple[int, ...]] = {}
    is_call = (of_event >= 0) & (host.names.kind[plane.name_of] == Kind.FUNCTION_CALL)
    for number in np.unique(of_event[is_call]).tolist():
        name = capture_file.signatures[number].op
        calls[name] = (*calls.get(name, ()), number)
    device = _of_records(record, [r.device for r in records])
    is_certain = pick(
        np.array([r.is_device_certain for r in records], np.bool_), record, missing=False
    )
    input_types = _of_records(record, [r.input_types for r in records])
    with_records = replace(
        host,
        record=record,
        device=filled(device, host.device),
        device_is_proved=np.where(device.present, is_certain, host.device_is_proved),
        input_types=filled(input_types, host.input_types),
    )
    return with_records, records, calls


def join_rows(
    occurrences: OpOccurrences,
    capture_file: CaptureFile,
    eager: tuple[OpRecord, ...],
    calls: dict[str, tuple[int, ...]],
) -> Joined:
    """Find the record of each row."""
    nodes = GraphNodes(capture_file)
    rows, definitions = occurrences.rows, occurrences.host.definitions
    columns = ("function", "name", "type", "is_eager", "is_xla", "record")
    records: list[OpRecord | None] = []
    for function, name, op_type, is_eager, is_xla, record in zip(
        *(rows[c] for c in columns), strict=True
    ):
        if is_eager or is_xla:
            records.append(eager[record] if record >= 0 else None)
        else:
            records.append(_graph_record(nodes, definitions, function, name, op_type))
    return Joined(
        records=tuple(records),
        calls=calls,
        own_types=frozenset() if _has_optionals_of_libraries(rows, capture_file) else _ON_OPTIONALS,
    )


def _has_optionals_of_libraries(rows: pd.DataFrame, capture_file: CaptureFile) -> bool:
    """Return whether elements of an iterator are taken as optionals, or Keras makes steps.

    These return their results as an optional, which is empty where the data ended. Otherwise an
    optional is a value of the program's own, or one that TensorFlow keeps for a gradient
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
    if function == CONSTANTS:  # made by the same line; the node itself may run elsewhere
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

    An empty rest requests no device: `tf.py_function` names only the process.
    """
    return None if device is None else device.removeprefix(_THIS_PROCESS)


def _types(tensors: tuple[Tensor, ...]) -> str:
    return ";".join(t.dtype for t in tensors)


def _is_cpu(device: str) -> bool:
    return "/device:CPU:" in device


def _of_records(record: NDArray[np.int32], values: Sequence[str | None]) -> Strings:
    """Return a value of each occurrence's record, a gap where there is none."""
    known = np.array([v is not None for v in values], np.bool_)
    codes = np.where(pick(known, record, missing=False), record, np.int32(-1))
    return Strings(codes, tuple(v or "" for v in values))
