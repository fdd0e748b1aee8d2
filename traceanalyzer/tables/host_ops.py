"""Finds the occurrences of ops on a host's threads, one for each time that an op ran."""

import re
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.placement.kernel_types import is_input_in_host_memory
from traceanalyzer.tables.arrays import (
    Codes,
    Flags,
    Ints,
    coded,
    concatenate,
    distinct_rows,
    flags_at,
    in_line_order,
    innermost,
    mapped,
    mask,
    named_like,
    pick,
    place_of,
    self_durations,
)
from traceanalyzer.tables.compiled_ops import CPU_DEVICE, MODULE, with_compiled_ops
from traceanalyzer.tables.functions import DATASET_LOOP, TF_DATA, called_functions
from traceanalyzer.tables.vocabulary import (
    EAGER_RUN,
    HOST_PLANE,
    ClassifiedNames,
    Kind,
    Role,
    classify,
    is_eager_executor_line,
    is_pipeline_line,
    role_of_type,
)
from traceanalyzer.trace.builder import TraceBuilder
from traceanalyzer.trace.columns import Plane, Trace
from traceanalyzer.trace.run_timeline import RAN_ON
from traceanalyzer.trace.strings import Strings

_CPU_DEVICE: Final = re.compile(r"/device:CPU:\d+$")
_EAGER_OP_STAT: Final = "eager_op"  # of `EagerExecute`, from TensorFlow 2.12 on
_EAGER_SEND: Final = re.compile(r"_Send input (\d+) from (\S+) to (\S+)")  # eager/execute.cc
_KEY_PARTS: Final = 5

# Calls that wait for a device and launch nothing.
SYNCHRONIZES: Final = re.compile(r"(?:cu|cuda|hip)\w*Synchronize(?:_v\d+)?")

# The type and shape of an input that a trace does not record: OpKernel::ShapeTraceString
# (op_kernel.cc) omits resources, variants, references and dead inputs.
UNKNOWN_TYPE: Final = "?"
_INPUT: Final = re.compile(r"(?P<type>.*?)(?P<shape>\[.*\])?")


class Transfer(NamedTuple):
    """An edge between devices, as a send or receive records it. Unknown fields are ""."""

    producer: str
    consumer: str
    source: str  #: device of the producer, full string
    target: str  #: device of the consumer, full string


class Moves(NamedTuple):
    """The inputs that were copied to the devices of eager ops."""

    event: Ints
    occurrence: Ints  #: the eager op's
    edge: Ints  #: index into `HostOps.transfers`
    input: Ints  #: index of the op's input


@dataclass(frozen=True, eq=False, kw_only=True)
class HostOps:
    """The ops that ran on one host's threads. Most arrays have one entry per occurrence."""

    plane: Plane
    names: ClassifiedNames
    event: Ints  #: index of the event in the plane
    name: Codes  #: index into `names.op` and `names.type`
    kind: NDArray[np.uint8]  #: `Kind`
    function: Strings  #: function it ran in, `tf.data`, `constant folding`, or empty
    definitions: dict[str, str]  #: full name of each function, with TensorFlow's counter
    copies: frozenset[str]  #: full names of other graphs of these functions, with the same ops
    in_pipeline: Flags  #: whether it ran on behalf of tf.data
    #: Whether it is an eager op that ran on another thread, TensorFlow's eager executor
    #: (eager/eager_executor.cc). That run is not linked to it.
    is_handed_over: Flags
    call: Ints  #: step id of the call it ran in, 0 where unknown
    device: Strings  #: device of its executor, or that its inputs were sent to; mostly unknown
    device_is_proved: Flags  #: an input that was sent to the CPU proves nothing
    self_ps: Ints  #: duration without the ops nested in it
    input_types: Strings  #: at host tracer level 3: `float;int32`, `?` for an unknown one
    input_shapes: Strings  #: at host tracer level 3: `[64,64];[2]`, `?` for an unknown one
    transfer: Codes  #: index into `transfers` of a send or receive, -1 for others
    transfers: tuple[Transfer, ...]
    moves: Moves
    record: Codes  #: index of an eager op's record; -1 for none
    owner: Ints  #: for each event of the plane, the occurrence it belongs to, or -1
    function_of_event: Strings  #: for each event of the plane, the function it ran in
    call_of_event: Ints  #: for each event of the plane, the step id of its call, 0 if unknown
    order: Ints  #: the plane's events as from `in_line_order`
    launches: Ints  #: events that can launch work, by correlation id, then by start


def host_plane(trace: Trace) -> Plane:
    """Return the host plane with the most events, or an empty plane if there is none."""
    planes = [plane for plane in trace.planes if plane.name == HOST_PLANE and len(plane)]
    if planes:
        return max(planes, key=len)
    empty = TraceBuilder(trace.format)
    empty.name_plane(0, HOST_PLANE)
    return empty.build().planes[0]


def host_ops(plane: Plane, *, with_compiled: bool = False) -> HostOps:
    """Find the op occurrences in a host plane, with those that XLA compiled if they are wanted."""
    names = classify(plane)
    if with_compiled:
        names = with_compiled_ops(plane, names)
    name_of = plane.name_of
    kind = names.kind[name_of]
    order = in_line_order(plane)
    if plane.has_stat("is_eager"):  # up to TensorFlow 2.10: an eager op is written `X:X`
        marked = (kind == Kind.OP) & (plane.integers("is_eager").values == 1)
        kind = np.where(marked & names.is_unnamed[name_of], Kind.EAGER_OP, kind).astype(np.uint8)

    is_op = np.isin(kind, (Kind.OP, Kind.EAGER_OP, Kind.STAGE, Kind.COMPILED_OP))
    parent = innermost(plane, order, is_op)
    echoes = _echoes(plane, names, kind, parent)
    if echoes.any():
        is_op &= ~echoes
        parent = innermost(plane, order, is_op)

    event = np.flatnonzero(is_op)
    inputs = plane.strings("shape", event)
    number = np.full(len(plane) + 1, -1, np.int64)  # the last entry serves index -1
    number[event] = np.arange(len(event))

    is_turn = names.is_executor[name_of]
    executor = innermost(plane, order, is_turn)
    # A thread can run other ops within a `_Send`: their events do not belong to the send.
    owner = np.where(is_op, number[:-1], number[innermost(plane, order, is_op | is_turn)])
    call_of_event = pick(plane.integers("id").values, executor, 0)
    functions, definitions = called_functions(plane, names, kind, order, executor)
    codes = functions.codes[event]
    by_data = functions.values.index(TF_DATA)
    is_pipeline = names.is_pipeline[name_of]
    for_data = is_pipeline | (innermost(plane, order, is_pipeline) >= 0)
    for_data |= mask(map(is_pipeline_line, plane.lines.name))[plane.line_of]
    in_pipeline = for_data[event] | (codes == by_data)
    in_pipeline &= codes != functions.values.index(DATASET_LOOP)
    called_by_data = in_pipeline & (codes < 0) & (kind[event] != Kind.STAGE)
    transfer, edges = _transfers(plane, names, event)
    moves = _moves(plane, kind, parent, number, edges)
    host = HostOps(
        plane=plane,
        names=names,
        event=event,
        name=name_of[event],
        kind=kind[event],
        function=coded(np.where(called_by_data, by_data, codes), functions.values),
        definitions=definitions,
        copies=frozenset(),
        in_pipeline=in_pipeline,
        is_handed_over=_handed_over(plane, names.kind[name_of[event]], number[parent]),
        call=call_of_event[event],
        device=coded(np.full(len(event), -1), ()),
        device_is_proved=np.zeros(len(event), np.bool_),
        self_ps=self_durations(plane.duration_ps[event], number[parent[event]]),
        input_types=mapped(inputs, lambda text: _of_inputs(text, "type")),
        input_shapes=mapped(inputs, lambda text: _of_inputs(text, "shape")),
        transfer=transfer,
        transfers=tuple(edges),
        moves=moves,
        record=np.full(len(event), -1, np.int32),
        owner=owner,
        function_of_event=functions,
        call_of_event=call_of_event,
        order=order,
        launches=_launch_calls(plane),
    )
    return _with_modules(_with_devices(host, executor[event]))


def _launch_calls(plane: Plane) -> Ints:
    """Return the host events that can launch work, sorted by correlation id, then by start.

    Calls that only wait for a device also have an id, but launch nothing.
    """
    column = plane.integers("correlation_id")
    can = column.present & (column.values != 0)
    can[named_like(plane, SYNCHRONIZES.fullmatch)] = False
    events = np.flatnonzero(can)
    return events[np.lexsort((plane.start_ps[events], column.values[events]))]


def _handed_over(plane: Plane, kind: NDArray[np.uint8], ran_in: Ints) -> Flags:
    """Return a mask of the eager ops that TensorFlow's eager executor ran on another thread.

    `kind` is the kind of each occurrence by its name; `X:X` counts as a graph op. `ran_in` is the
    occurrence around each event of the plane.
    """
    runs = plane.named(EAGER_RUN)
    own = mask(map(is_eager_executor_line, plane.lines.name))
    if not own[plane.line_of[runs]].any():
        return np.zeros(len(kind), np.bool_)
    is_eager: Flags = kind == Kind.EAGER_OP
    return is_eager & ~flags_at(ran_in[runs], len(kind))


def _echoes(plane: Plane, names: ClassifiedNames, kind: NDArray[np.uint8], parent: Ints) -> Flags:
    """Find events `X:X` that only repeat the eager op around them, `EagerLocalExecute: X`.

    TensorFlow 2.3 to 2.5 wrote both. Only the outer event counts.
    """
    if not (kind == Kind.EAGER_OP).any():
        return np.zeros(len(plane), np.bool_)
    type_code = np.unique(names.type, return_inverse=True)[1][plane.name_of]
    is_echo: Flags = (kind == Kind.OP) | (kind == Kind.EAGER_OP)
    is_echo &= names.is_unnamed[plane.name_of]
    is_echo &= pick(kind, parent, Kind.OTHER) == Kind.EAGER_OP
    is_echo &= pick(type_code, parent) == type_code
    return is_echo


def _transfers(
    plane: Plane, names: ClassifiedNames, event: Ints
) -> tuple[Codes, dict[Transfer, int]]:
    """Return the edge number of each `_Send` and `_Recv` (-1 for other ops), and the edges."""
    is_transfer = mask(role_of_type(t) == Role.TRANSFER for t in names.type)
    rows = np.flatnonzero(is_transfer[plane.name_of[event]])
    transfer = np.full(len(event), -1, np.int32)
    columns = [plane.strings(stat, event[rows]) for stat in ("key", "from", "to")]
    number, distinct = distinct_rows([column.codes for column in columns])
    edges: dict[Transfer, int] = {}
    index_of = []
    for codes in distinct.tolist():
        edge = _edge(*(c.values[k] if k >= 0 else "" for c, k in zip(columns, codes, strict=True)))
        index_of.append(-1 if edge is None else edges.setdefault(edge, len(edges)))
    transfer[rows] = np.array(index_of, np.int32)[number]
    return transfer, edges


def _edge(key: str, producer: str, consumer: str) -> Transfer | None:
    # rendezvous.cc, CreateKey: source;incarnation;target;edge name;frame:iteration
    parts = key.split(";")
    source, _, target, edge, *_ = parts if len(parts) >= _KEY_PARTS else [""] * _KEY_PARTS
    if not (source or producer):
        return None
    return Transfer(producer or re.sub(r"^edge_\d+_", "", edge), consumer, source, target)


def _moves(
    plane: Plane, kind: NDArray[np.uint8], parent: Ints, number: Ints, edges: dict[Transfer, int]
) -> Moves:
    """Find inputs copied for eager ops (`_Send input 0 from A to B`). Add new edges to `edges`."""
    event = named_like(plane, _EAGER_SEND.fullmatch)
    event = event[pick(kind, parent[event], Kind.OTHER) == Kind.EAGER_OP]
    of_name: dict[int, tuple[int, int]] = {}
    for name in np.unique(plane.name_of[event]).tolist():
        match = _EAGER_SEND.fullmatch(plane.names[name])
        if match:
            edge = edges.setdefault(Transfer("", "", *match.groups()[1:]), len(edges))
            of_name[name] = edge, int(match[1])
    found = np.array([of_name[n] for n in plane.name_of[event].tolist()], np.int64).reshape(-1, 2)
    return Moves(event, number[parent[event]], found[:, 0], found[:, 1])


def _with_devices(host: HostOps, turn: Ints) -> HostOps:
    """Add each occurrence's device, and whether it is proved. `turn` is the executor's event.

    A timeline of a session names each op's device.
    The key of a send or receive names the device that ran it. A function has one executor per
    device, so all ops that the same executor ran are on that device.

    The inputs of an eager op are sent to its device. But if a GPU op needs an input in host memory,
    TensorFlow sends it to the CPU, too (kernel_and_device.cc). So an input sent to the CPU proves
    nothing. It is evidence only if no GPU kernel of the op needs it in host memory. It is ignored
    in traces of TensorFlow 2.3 to 2.11, whose `EagerExecute` does not name the op.
    """
    plane, moves = host.plane, host.moves
    if plane.has_stat(RAN_ON):
        return _with_recorded_devices(host)
    devices: dict[str, int] = {"": -1}
    source, target = (
        np.array([devices.setdefault(end, len(devices) - 1) for end in ends], np.int32)
        for ends in ([e.source for e in host.transfers], [e.target for e in host.transfers])
    )
    is_send = mask(name.endswith("Send") for name in plane.names)[host.name]
    codes = np.where(is_send, pick(source, host.transfer), pick(target, host.transfer))

    executor = plane.integers("_c")
    # Up to TensorFlow 2.6 (seen in the corpus) `_c` is the step id, shared by all its executors.
    is_own = executor.present[turn] & (executor.values[turn] != plane.integers("id").values[turn])
    run = np.where((turn >= 0) & is_own, executor.values[turn], 0)
    sends = (codes >= 0) & (run != 0)
    pairs = np.unique(np.stack([run[sends], codes[sends]], axis=1), axis=0)
    runs, first, count = np.unique(pairs[:, 0], return_index=True, return_counts=True)
    of_run = pick(pairs[first[count == 1], 1], place_of(runs[count == 1], run))
    codes = np.where(codes >= 0, codes, of_run)

    is_cpu = mask(map(_CPU_DEVICE.search, devices))[1:]
    to_cpu = is_cpu[target[moves.edge]] & ~is_cpu[source[moves.edge]]
    codes[moves.occurrence[~to_cpu]] = target[moves.edge[~to_cpu]]
    is_proved = codes >= 0
    if plane.has_stat(_EAGER_OP_STAT):
        of_move, distinct = distinct_rows([host.name[moves.occurrence], moves.input])
        on_host = [
            is_input_in_host_memory(host.names.type[n] or "", i) for n, i in distinct.tolist()
        ]
        unproved = to_cpu & ~is_proved[moves.occurrence] & ~np.array(on_host, np.bool_)[of_move]
        codes[moves.occurrence[unproved]] = target[moves.edge[unproved]]
    return replace(host, device=coded(codes, tuple(devices)[1:]), device_is_proved=is_proved)


def _with_modules(host: HostOps) -> HostOps:
    """Add the module and the device of ops that XLA compiled for the CPU."""
    is_compiled = host.kind == Kind.COMPILED_OP
    if not is_compiled.any():
        return host
    modules = host.plane.strings(MODULE, host.event)
    merged = concatenate([host.function, modules])
    own, of_module = np.split(merged.codes, 2)
    devices = concatenate([host.device, coded(np.zeros(len(host.event)), (CPU_DEVICE,))])
    known, on_cpu = np.split(devices.codes, 2)
    return replace(
        host,
        function=coded(np.where(is_compiled, of_module, own), merged.values),
        device=coded(np.where(is_compiled, on_cpu, known), devices.values),
        device_is_proved=host.device_is_proved | is_compiled,
    )


def _with_recorded_devices(host: HostOps) -> HostOps:
    """Add the device that each op's event names.

    A session places a node on one device. If several are named for it, the file was merged from
    timelines that number devices differently, so the device is unknown.
    """
    device = host.plane.strings(RAN_ON, host.event)
    low = np.full(len(host.names.op), np.iinfo(np.int32).max)
    high = np.full(len(host.names.op), -1)
    np.minimum.at(low, host.name, device.codes)
    np.maximum.at(high, host.name, device.codes)
    codes = np.where((low == high)[host.name], device.codes, -1)
    return replace(host, device=coded(codes, device.values), device_is_proved=codes >= 0)


def _of_inputs(stat: str, what: Literal["type", "shape"]) -> str | None:
    """Return the types or shapes in a `shape` stat, such as `(float[64,64];int32[2])`.

    Only ops with inputs have this stat, so `()` means one unknown input.
    """
    if not stat.startswith("("):
        return None
    parts = map(_INPUT.fullmatch, stat.strip("()").split(";"))
    return ";".join((part and part[what]) or UNKNOWN_TYPE for part in parts)
