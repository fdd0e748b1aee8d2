"""Joins each op of a trace with its record in the capture file.

Graph ops are looked up by function and name, once the op table has its rows. Eager ops get their
records earlier, because they have a row for each source line, scope, and combination of types, but
their events contain only the op type. The recorder lists the ops that each Python thread ran, in
order (`CaptureFile.sequences`). Now and then, it writes a marker, `traceanalyzer:eager`, to the
trace, with the thread's number and the position of its next op. Between two markers, events are
aligned with records by op type.

Events and records can differ: TensorFlow runs additional ops (`_EagerConst`, a `Cast` of an
argument), and some of Python's ops fail before they run. An event then gets a record only if every
longest common subsequence pairs it with a record of the same signature, because a wrong line is
worse than none.
"""

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from traceanalyzer.capture_file.document import (
    SESSION,
    CaptureFile,
    EagerSequence,
    Frame,
    Signature,
    Tensor,
)
from traceanalyzer.native.events import align
from traceanalyzer.placement.devices import GPU, LOCAL
from traceanalyzer.placement.kernel_tables import InputTypesError
from traceanalyzer.placement.kernel_types import all_on_host
from traceanalyzer.placement.registry import nearest
from traceanalyzer.tables.arrays import Codes, Flags, Ints, coded, filled, mask, pick
from traceanalyzer.tables.functions import CONSTANTS, TF_DATA
from traceanalyzer.tables.graph_nodes import GraphNodes, OpRecord, as_typed
from traceanalyzer.tables.host_ops import UNKNOWN_TYPE, HostOps
from traceanalyzer.tables.occurrences import OpOccurrences
from traceanalyzer.tables.program_graphs import GraphFinder, TracedOp
from traceanalyzer.tables.vocabulary import EAGER, SESSION_RUN, Kind, Role, role_of_type
from traceanalyzer.trace.columns import Plane
from traceanalyzer.trace.strings import Strings

_CPU: Final = "/device:CPU:"
MARKER: Final = "traceanalyzer:eager"
_AS_OPTIONAL: Final = "IteratorGetNextAsOptional"  # iterator_ops.cc
# Of functions: keras/src/backend/tensorflow/trainer.py, `multi_step_on_iterator` (3.15).
_KERAS_STEP: Final = "_step_on_iterator"
# The most pairs of event and record to compare between two markers. If there are more, markers must
# be lost, and no event gets a record.
_MOST_PAIRS: Final = 4_000_000


@dataclass(frozen=True, eq=False, kw_only=True)
class Joined:
    """The records of one host's ops in its capture file."""

    records: tuple[OpRecord | None, ...]  #: by row of the op table
    #: The signatures with which each function was called eagerly, by its definition's name.
    calls: dict[str, tuple[int, ...]]
    graphs: CaptureFile | None = None  #: graphs of the program from other files, if there are any
    #: Whether optionals are the program's values; otherwise, tf.data's elements are optionals.
    has_own_optionals: bool = False


def join_rows(
    occurrences: OpOccurrences,
    capture_file: CaptureFile,
    eager: tuple[OpRecord, ...],
    calls: dict[str, tuple[int, ...]],
) -> Joined:
    """Find the record of each row of the op table. `eager` and `calls` are from `join_eager`."""
    nodes, definitions = GraphNodes(capture_file), occurrences.host.definitions

    def record(row: Any) -> OpRecord | None:  # noqa: ANN401 - a named tuple of pandas'
        if row.is_eager or row.is_xla:
            return eager[row.record] if row.record >= 0 else None
        if row.function == TF_DATA:
            return nodes.find_in_datasets(row.name, row.type)
        if row.function in definitions:
            return nodes.find(definitions[row.function], row.name, row.type)
        found = nodes.find_in_any(row.name, row.type)
        if row.function == CONSTANTS:  # same source line, but the node itself may run elsewhere
            return found and OpRecord(frame=found.frame, requested_device=None)
        return found if row.function is None else None

    return Joined(
        records=tuple(map(record, occurrences.rows.itertuples())),
        calls=calls,
        has_own_optionals=_has_own_optionals(capture_file),
    )


def _has_own_optionals(capture_file: CaptureFile) -> bool:
    """Return whether the program itself, and no library such as Keras, creates optionals."""
    known = {signature.op for signature in capture_file.signatures}
    for function in capture_file.functions:
        known.add(function.name)
        known.update(*(instance.input.ops for instance in function.instances))
    return not any(_AS_OPTIONAL in each or _KERAS_STEP in each for each in known)


def join_graphs(
    occurrences: OpOccurrences,
    graphs: GraphFinder,
    gpus: Sequence[str],
    placements: Sequence[str],
) -> Joined | None:
    """Join the rows with graphs from other files. Return None if the trace has no functions.

    Such a graph may be from another call of the function, so no device is certain. `gpus` are full
    names, and `placements` are those of the rows according to the trace alone.
    """
    rows, plane = occurrences.rows, occurrences.host.plane
    named: dict[str | None, str] = dict(occurrences.host.definitions.items())
    if len(plane.named(SESSION_RUN)):
        named[None] = SESSION
    functions: dict[str, list[TracedOp]] = defaultdict(list)
    columns = (rows["function"], rows["name"], rows["type"], rows["is_eager"], placements)
    for function, name, op, is_eager, placement in zip(*columns, strict=True):
        if is_eager or function not in named or role_of_type(op) == Role.TRANSFER:
            continue
        kind, _, number = placement.partition(":")
        device = f"{LOCAL}/device:{kind.upper()}:{number or 0}" if kind in {"cpu", "gpu"} else ""
        functions[named[function]].append(TracedOp(name, op, device))
    if not functions:
        return None
    recorded = graphs.of_functions(functions, gpus)
    joined = join_rows(occurrences, recorded, (), {})
    nodes, records = GraphNodes(recorded), list(joined.records)
    for at, row in enumerate(rows.itertuples()):
        if row.function is None and not row.is_eager:
            records[at] = nodes.find(SESSION, str(row.name), str(row.type))
    by_graph = [
        found
        and replace(found, device=as_typed(found.device), is_device_certain=False, witness="graph")
        for found in records
    ]
    # The graphs do not show eager ops, so not whether a library takes elements as optionals.
    return replace(joined, records=tuple(by_graph), graphs=recorded, has_own_optionals=False)


def join_eager(
    host: HostOps, capture_file: CaptureFile, session: int | None
) -> tuple[HostOps, tuple[OpRecord, ...], dict[str, tuple[int, ...]]]:
    """Add the records of eager ops. Return the occurrences, these records, and `Joined.calls`."""
    plane = host.plane
    of_event = eager_signatures(plane, host.order, capture_file, session)
    signature = np.where(host.kind == Kind.EAGER_OP, of_event[host.event], -1)
    used = np.unique(signature[signature >= 0])
    records, record_of_signature = distinct_records(capture_file, used)
    record = pick(record_of_signature, signature)
    calls: dict[str, tuple[int, ...]] = {}
    is_call = (of_event >= 0) & (host.names.kind[plane.name_of] == Kind.FUNCTION_CALL)
    for number in np.unique(of_event[is_call]).tolist():
        name = capture_file.signatures[number].op
        calls[name] = (*calls.get(name, ()), number)
    device = _of_records(record, [r.device for r in records])
    is_certain = pick(mask(r.is_device_certain for r in records), record, missing=False)
    with_records = replace(
        host,
        record=record,
        device=filled(device, host.device),
        device_is_proved=np.where(device.present, is_certain, host.device_is_proved),
        input_types=filled(_of_records(record, [r.input_types for r in records]), host.input_types),
    )
    return with_records, records, calls


def _of_records(record: Codes, values: Sequence[str | None]) -> Strings:
    is_known = pick(mask(v is not None for v in values), record, missing=False)
    return coded(np.where(is_known, record, -1), [v or "" for v in values])


def distinct_records(capture_file: CaptureFile, used: Codes) -> tuple[tuple[OpRecord, ...], Codes]:
    """Return the distinct records of the signatures in use, and each signature's record number."""
    alike: dict[tuple[str, OpRecord], list[int]] = {}
    for number in used.tolist():
        signature = capture_file.signatures[number]
        record = _eager_record(signature, capture_file.frame(signature.frame))
        is_away = record.device is not None and _CPU not in record.device
        if is_away and _is_of_host_kernel(capture_file, number):
            record = replace(record, is_on_host=True)
        alike.setdefault((signature.op, record), []).append(number)
    of_signature = np.full(len(capture_file.signatures), -1, np.int32)
    records: list[OpRecord] = []
    for (_, record), numbers in alike.items():
        of_signature[numbers] = len(records)
        calls = [capture_file.signatures[n].inputs for n in numbers]
        inputs = [tensor for call in calls for tensor in call]
        shapes = {";".join(map(_shape, call)) for call in calls}
        are_there = record.is_on_host and all(_CPU in t.backing_device for t in inputs)
        are_there |= any(_is_of_host_kernel(capture_file, number) for number in numbers)
        known = replace(record, signatures=tuple(numbers), has_host_inputs=are_there)
        records.append(replace(known, input_shapes=shapes.pop() if len(shapes) == 1 else None))
    return tuple(records), of_signature


def _is_of_host_kernel(capture_file: CaptureFile, number: int) -> bool:
    """Return whether the GPU kernel of a signature is known to have all data in host memory.

    A tensor does not always show that: of a `bool` that such a kernel makes, `backing_device` names
    the GPU.
    """
    signature = capture_file.signatures[number]
    kernels = nearest(capture_file.tensorflow_version)
    definition = kernels.registry.definition(signature.op)
    if definition is None or not kernels.exact or signature.is_function:
        return False
    known = capture_file.attribute_set(signature.attributes)
    with suppress(InputTypesError):
        known = definition.of_inputs([t.dtype for t in signature.inputs], known)
    kernel = kernels.registry.find(signature.op, GPU, known)
    return kernel is not None and all_on_host(kernel, definition, definition.complete(known))


def _shape(tensor: Tensor) -> str:
    sizes = tensor.shape
    return UNKNOWN_TYPE if sizes is None else f"[{','.join(map(str, sizes))}]"


def _eager_record(signature: Signature, frame: Frame | None) -> OpRecord:
    # Outputs are on the op's device, whatever their memory (kernel_and_device.cc). An op without
    # outputs is placed with its resource (placement_utils.cc, MaybePinToResourceDevice).
    inputs, outputs = signature.inputs, signature.outputs
    devices = {t.device for t in outputs or inputs if outputs or t.dtype == "resource"}
    device = devices.pop() if len(devices) == 1 else ""
    is_away = bool(device and outputs) and _CPU not in device
    return OpRecord(
        frame=frame,
        requested_device=as_typed(signature.scope),
        input_types=";".join(t.dtype for t in inputs),
        output_types=";".join(t.dtype for t in outputs),
        device=device or None,
        is_device_certain=bool(outputs),
        is_on_host=is_away and all(_CPU in t.backing_device for t in outputs),
    )


def eager_signatures(
    plane: Plane, order: Ints, capture_file: CaptureFile, session: int | None
) -> Codes:
    """Return each event's signature, or -1 if it is uncertain."""
    out = np.full(len(plane), -1, np.int32)
    sequences = [s for s in capture_file.sequences if session is None or s.session == session]
    marker = np.flatnonzero(mask(n == MARKER for n in plane.names)[plane.name_of[order]])
    if not sequences or not len(marker):
        return out
    codes = {op: k for k, op in enumerate(dict.fromkeys(s.op for s in capture_file.signatures))}
    op_of_name = np.array(
        [codes.get(n.removeprefix(EAGER), -1) if n.startswith(EAGER) else -1 for n in plane.names],
        np.int32,
    )
    # Ops that Python never ran are run by TensorFlow.
    rank = np.flatnonzero(op_of_name[plane.name_of[order]] >= 0)
    event = order[rank]

    # The records of all sequences, concatenated.
    parts = [np.repeat(s.signatures.astype(np.int32), s.counts) for s in sequences]
    signature = np.concatenate(parts)
    op = np.array([codes[s.op] for s in capture_file.signatures], np.int32)[signature]
    offset = np.cumsum([0, *map(len, parts)])
    begin, end, is_open = _records_after(plane, order[marker], sequences, offset)
    # The events of a line that follow a marker, up to the next one or the end of the line.
    limits = np.append(marker, len(order))
    line_ends = plane.lines.event_begin[1:][plane.line_of[order[marker]]]
    first = np.searchsorted(rank, limits[:-1])
    last = np.searchsorted(rank, np.minimum(limits[1:], line_ends))
    ran = op_of_name[plane.name_of[event]], first, last
    paired = align(ran, (op, begin, end), signature, is_open, _MOST_PAIRS)
    found = paired >= 0
    out[event[found]] = signature[paired[found]]
    return out


def _records_after(
    plane: Plane, marker: Ints, sequences: Sequence[EagerSequence], offset: Ints
) -> tuple[Ints, Ints, Flags]:
    """Return the records after each marker: begin, end, and whether the end is unknown.

    The end is known if another marker of the same thread and sequence follows on the line.
    Otherwise, the trace or the records may end first. A marker that matches no sequence, or several
    of them, has no records.
    """
    thread, index = plane.integers("thread", marker), plane.integers("index", marker)
    line, place = plane.line_of[marker], index.values
    sequence = np.full(len(marker), -1, np.int64)
    for k, each in enumerate(sequences):
        within = thread.present & index.present & (thread.values == each.thread)
        within &= (place >= 0) & (place < offset[k + 1] - offset[k])
        sequence = np.where(within, np.where(sequence == -1, k, -2), sequence)
    known = sequence >= 0
    begin = np.where(known, offset[sequence] + place, 0)
    end = np.where(known, offset[sequence + 1], 0)
    follows = known[:-1] & (sequence[:-1] == sequence[1:]) & (begin[1:] >= begin[:-1])
    follows &= line[:-1] == line[1:]
    end[:-1] = np.where(follows, begin[1:], end[:-1])
    return begin, end, known & ~np.append(follows, np.False_)
