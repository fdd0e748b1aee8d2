"""The ops seen on a host's threads: one entry for each time one ran, with what surrounds it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from traceanalyzer.tables.arrays import (
    distinct_rows,
    in_line_order,
    innermost,
    mapped,
    mask,
    pick,
    place_of,
    self_durations,
)
from traceanalyzer.tables.device_events import launch_calls
from traceanalyzer.tables.functions import DATASET_LOOP, TF_DATA, called_functions
from traceanalyzer.tables.vocabulary import (
    HOST_PLANE,
    Kind,
    Role,
    classify,
    is_eager_executor_line,
    is_pipeline_line,
    role_of_type,
)
from traceanalyzer.trace.builder import TraceBuilder
from traceanalyzer.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from traceanalyzer.tables.vocabulary import Names
    from traceanalyzer.trace.columns import Plane, Trace

_CPU_DEVICE: Final = re.compile(r"/device:CPU:\d+$")
_EAGER_RUN: Final = "EagerKernelExecute"  # eager/execute.cc: the op's kernel runs
_EAGER_OP_STAT: Final = "eager_op"  # of `EagerExecute`, from TensorFlow 2.12 on
_EAGER_SEND: Final = re.compile(r"_Send input \d+ from (\S+) to (\S+)")  # eager/execute.cc
_KEY_PARTS: Final = 5

# The type of an input that a trace does not record: OpKernel::ShapeTraceString (op_kernel.cc)
# leaves out resources, variants and references, and inputs that did not come.
UNKNOWN_TYPE: Final = "?"


class Transfer(NamedTuple):
    """An edge between devices, as a `_Send` or `_Recv` event records it; empty where unknown."""

    producer: str
    consumer: str
    #: Device of the producer, full string.
    source: str
    #: Device of the consumer, full string.
    target: str


class Move(NamedTuple):
    """An input of an eager op, copied to the op's device."""

    event: int
    #: The eager op's occurrence.
    occurrence: int
    source: str
    target: str


@dataclass(frozen=True, eq=False, kw_only=True)
class HostOps:
    """Ops that ran on one host's threads; arrays have one entry an occurrence unless said."""

    plane: Plane
    names: Names
    #: Index of the event in the plane, int64.
    event: NDArray[np.int64]
    #: Index into `names.op` and `names.type`, int32.
    name: NDArray[np.int32]
    #: `Kind`, uint8.
    kind: NDArray[np.uint8]
    #: Function it ran in, `tf.data`, `constant folding`, or empty.
    function: Strings
    #: Full name, with TensorFlow's counter, of each function.
    definitions: dict[str, str]
    #: Whether it ran on behalf of tf.data.
    in_pipeline: NDArray[np.bool_]
    #: Whether it is an eager op that the thread did not run itself: TensorFlow's executor of eager
    #: ops did (eager/eager_executor.cc), in events that name no op, or in older traces in one
    #: `X:X`, an occurrence of its own.
    is_handed_over: NDArray[np.bool_]
    #: Step id of the call it ran in, 0 where unknown, int64.
    call: NDArray[np.int64]
    #: Device whose executor ran it, or where its inputs were sent to; mostly unknown.
    device: Strings
    #: Whether that is proof. An input that was sent to the CPU proves nothing.
    device_is_proved: NDArray[np.bool_]
    #: Duration without that of the ops nested in it, int64.
    self_ps: NDArray[np.int64]
    #: Types of its inputs (host tracer level 3), `float;int32`, `?` for one that is unknown.
    input_types: Strings
    #: Index into `transfers`, -1 for none, int32.
    transfer: NDArray[np.int32]
    transfers: tuple[Transfer, ...]
    #: Inputs that were copied for eager ops.
    moves: tuple[Move, ...]
    #: For each event of the plane, the occurrence that did it (or is it), or -1.
    owner: NDArray[np.int64]
    #: For each event of the plane, the function it ran in.
    function_of_event: Strings
    #: For each event of the plane, the step id of the call, 0 where unknown; int64.
    call_of_event: NDArray[np.int64]
    #: The plane's events as from `in_line_order`.
    order: NDArray[np.int64]
    #: Events that can launch work, as from `launch_calls`.
    launches: NDArray[np.int64]
    #: The record of an eager op, an index; -1 for none; int32.
    record: NDArray[np.int32]


def host_plane(trace: Trace) -> Plane:
    """Return the fullest host plane; one without events if nothing was recorded on any."""
    planes = [plane for plane in trace.planes if plane.name == HOST_PLANE and len(plane)]
    if planes:
        return max(planes, key=len)
    empty = TraceBuilder(trace.format)
    empty.plane(HOST_PLANE)
    return empty.build().planes[0]


def host_ops(plane: Plane) -> HostOps:
    """Find the op occurrences of a host plane."""
    names = classify(plane)
    name_of = plane.name_of
    kind = names.kind[name_of]
    order = in_line_order(plane)
    if plane.has_stat("is_eager"):  # up to TensorFlow 2.10: an eager op is written `X:X`
        marked = (kind == Kind.OP) & (plane.integers("is_eager").values == 1)
        kind = np.where(marked & names.is_unnamed[name_of], Kind.EAGER_OP, kind).astype(np.uint8)

    is_op = (kind == Kind.OP) | (kind == Kind.EAGER_OP) | (kind == Kind.STAGE)
    parent = innermost(plane, order, is_op)
    echoes = _echoes(plane, names, kind, parent)
    if echoes.any():
        is_op &= ~echoes
        parent = innermost(plane, order, is_op)

    event = np.flatnonzero(is_op)
    number = np.full(len(plane) + 1, -1, np.int64)  # the last entry serves index -1
    number[event] = np.arange(len(event))

    is_turn = names.is_executor[name_of]
    executor = innermost(plane, order, is_turn)
    # A thread may take a turn at other ops within a `_Send`: what it does there is not the send's.
    owner = np.where(is_op, number[:-1], number[innermost(plane, order, is_op | is_turn)])
    step_id = plane.integers("id").values
    call_of_event = np.where(executor >= 0, step_id[executor], 0)
    functions, definitions = called_functions(plane, names, kind, order, executor)
    codes = functions.codes[event]
    by_data = functions.values.index(TF_DATA)
    in_pipeline = _in_pipeline(plane, names, order)[event] | (codes == by_data)
    in_pipeline &= codes != functions.values.index(DATASET_LOOP)
    called_by_data = in_pipeline & (codes < 0) & (kind[event] != Kind.STAGE)
    transfer, transfers = _transfers(plane, names, event)
    moves = _moves(plane, kind, parent, number)
    device = _devices_of_transfers(plane, event, transfer, transfers)
    device = _devices_of_executors(plane, device, executor[event])
    device, device_is_proved = _devices_of_moves(plane, device, moves)
    return HostOps(
        plane=plane,
        names=names,
        event=event,
        name=name_of[event],
        kind=kind[event],
        function=Strings(
            np.where(called_by_data, by_data, codes).astype(np.int32), functions.values
        ),
        definitions=definitions,
        in_pipeline=in_pipeline,
        is_handed_over=_handed_over(plane, names.kind[name_of[event]], number[parent]),
        call=call_of_event[event],
        device=device,
        device_is_proved=device_is_proved,
        self_ps=self_durations(plane.duration_ps[event], number[parent[event]]),
        input_types=_input_types(plane, event),
        transfer=transfer,
        transfers=transfers,
        moves=moves,
        owner=owner,
        function_of_event=functions,
        call_of_event=call_of_event,
        order=order,
        launches=launch_calls(plane),
        record=np.full(len(event), -1, np.int32),
    )


def _handed_over(
    plane: Plane, kind: NDArray[np.uint8], ran_in: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Tell which eager ops the executor of eager ops ran on a thread of its own.

    `kind` is that of each occurrence by its name: `X:X` is an op, for that is the event of a
    running kernel, of an eager op too. `ran_in` is the occurrence around each event of the plane.
    """
    runs = plane.named(_EAGER_RUN)
    own = mask(map(is_eager_executor_line, plane.lines.name))
    if not len(runs) or not own[plane.line_of[runs]].any():
        return np.zeros(len(kind), np.bool_)
    handed_over: NDArray[np.bool_] = kind == Kind.EAGER_OP
    inside = ran_in[runs]
    handed_over[inside[inside >= 0]] = False
    return handed_over


def _echoes(
    plane: Plane, names: Names, kind: NDArray[np.uint8], parent: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Find events that repeat the eager op around them: `X:X` within `EagerLocalExecute: X`.

    TensorFlow 2.3 to 2.5 wrote both (seen in the corpus); the outer one is counted.
    """
    if not (kind == Kind.EAGER_OP).any():
        return np.zeros(len(plane), np.bool_)
    type_code = np.unique(names.type, return_inverse=True)[1][plane.name_of]
    outer = parent.clip(0)
    echoes: NDArray[np.bool_] = (
        ((kind == Kind.OP) | (kind == Kind.EAGER_OP))
        & names.is_unnamed[plane.name_of]
        & (parent >= 0)
        & (kind[outer] == Kind.EAGER_OP)
        & (type_code == type_code[outer])
    )
    return echoes


def _in_pipeline(plane: Plane, names: Names, order: NDArray[np.int64]) -> NDArray[np.bool_]:
    on_thread = mask(map(is_pipeline_line, plane.lines.name))[plane.line_of]
    is_pipeline = names.is_pipeline[plane.name_of]
    return on_thread | is_pipeline | (innermost(plane, order, is_pipeline) >= 0)


def _transfers(
    plane: Plane, names: Names, event: NDArray[np.int64]
) -> tuple[NDArray[np.int32], tuple[Transfer, ...]]:
    """Read the edges that `_Send` and `_Recv` events record (rendezvous key, from, to)."""
    is_transfer = mask(role_of_type(t) == Role.TRANSFER for t in names.type)
    rows = np.flatnonzero(is_transfer[plane.name_of[event]])
    transfer = np.full(len(event), -1, np.int32)
    if not len(rows):
        return transfer, ()
    columns = [plane.strings(stat).take(event[rows]) for stat in ("key", "from", "to")]
    number, distinct = distinct_rows([column.codes for column in columns])
    found: dict[Transfer, int] = {}
    index_of = []
    for codes in distinct.tolist():
        texts = [c.values[k] if k >= 0 else "" for c, k in zip(columns, codes, strict=True)]
        edge = _transfer(*texts)
        index_of.append(-1 if edge is None else found.setdefault(edge, len(found)))
    transfer[rows] = np.array(index_of, np.int32)[number]
    return transfer, tuple(found)


def _transfer(key: str, producer: str, consumer: str) -> Transfer | None:
    # rendezvous.cc, CreateKey: source;incarnation;target;edge name;frame:iteration
    parts = key.split(";")
    source, target, edge = "", "", ""
    if len(parts) >= _KEY_PARTS:
        source, target, edge = parts[0], parts[2], parts[3]
    if not (source or producer):
        return None
    return Transfer(producer or re.sub(r"^edge_\d+_", "", edge), consumer, source, target)


def _devices_of_transfers(
    plane: Plane,
    event: NDArray[np.int64],
    transfer: NDArray[np.int32],
    transfers: Sequence[Transfer],
) -> Strings:
    """Return the device that each send or receive ran on, where its key names one."""
    ends = [*(t.source for t in transfers), *(t.target for t in transfers)]
    rows = np.flatnonzero(transfer >= 0)
    is_send = mask(name.endswith("Send") for name in plane.names)[plane.name_of[event[rows]]]
    codes = np.full(len(event), -1, np.int32)
    codes[rows] = transfer[rows] + np.where(is_send, 0, len(transfers))
    return mapped(Strings(codes, tuple(ends)), lambda device: device or None)


def _devices_of_executors(plane: Plane, device: Strings, turn: NDArray[np.int64]) -> Strings:
    """Extend the device of a send to all ops that the same executor ran.

    A function has one executor a device, so a send names the device of its executor's ops.
    """
    if not device.present.any():
        return device
    executor = plane.integers("_c")
    # Up to TensorFlow 2.6 (seen in the corpus) `_c` is the step's id, shared by all its executors.
    is_own = executor.present[turn] & (executor.values[turn] != plane.integers("id").values[turn])
    run = np.where((turn >= 0) & is_own, executor.values[turn], 0)
    sends = device.present & (run != 0)
    pairs = np.unique(np.stack([run[sends], device.codes[sends]], axis=1), axis=0)
    runs, first, count = np.unique(pairs[:, 0], return_index=True, return_counts=True)
    of_run = pairs[first[count == 1], 1]
    found = pick(of_run, place_of(runs[count == 1], run)).astype(np.int32)
    return Strings(np.where(device.present, device.codes, found), device.values)


def _devices_of_moves(
    plane: Plane, device: Strings, moves: tuple[Move, ...]
) -> tuple[Strings, NDArray[np.bool_]]:
    """Add the devices of eager ops, and tell which devices are proved.

    An eager op's inputs are sent to the op's device, but an op on a GPU takes some inputs in host
    memory: TensorFlow 2.3 to 2.11 sent these to the CPU first (kernel_and_device.cc); later
    versions, whose `EagerExecute` names the op, do not (tried on an emulated GPU). So an input sent
    to the CPU is no proof, and in older traces it says nothing.
    """
    devices = {name: code for code, name in enumerate(device.values)}
    codes = device.codes
    proved = codes >= 0
    for move in moves:
        if not _CPU_DEVICE.search(move.target) or _CPU_DEVICE.search(move.source):
            codes[move.occurrence] = devices.setdefault(move.target, len(devices))
            proved[move.occurrence] = True
    for move in moves if plane.has_stat(_EAGER_OP_STAT) else ():
        if not proved[move.occurrence]:
            codes[move.occurrence] = devices.setdefault(move.target, len(devices))
    return Strings(codes, tuple(devices)), proved


def _moves(
    plane: Plane, kind: NDArray[np.uint8], parent: NDArray[np.int64], number: NDArray[np.int64]
) -> tuple[Move, ...]:
    """Find the inputs copied for eager ops: `_Send input 0 from A to B`."""
    matches = {i: m for i, n in enumerate(plane.names) if (m := _EAGER_SEND.fullmatch(n))}
    if not matches:
        return ()
    is_move = np.zeros(len(plane.names), np.bool_)
    is_move[list(matches)] = True
    events = np.flatnonzero(is_move[plane.name_of] & (parent >= 0))
    return tuple(
        Move(e, int(number[parent[e]]), *matches[int(plane.name_of[e])].groups())
        for e in events.tolist()
        if kind[parent[e]] == Kind.EAGER_OP
    )


def _input_types(plane: Plane, event: NDArray[np.int64]) -> Strings:
    """Reduce the stat `shape`, `(float[64,64];int32[2])`, to its types, `float;int32`.

    It is written only of an op with inputs: `()` is one input of unknown type.
    """
    shapes = plane.strings("shape").take(event)
    return mapped(shapes, lambda shape: _types_of_shape(shape) if shape.startswith("(") else None)


def _types_of_shape(shape: str) -> str:
    parts = shape.strip("()").split(";")
    return ";".join(re.sub(r"\[.*\]$", "", part) or UNKNOWN_TYPE for part in parts)
