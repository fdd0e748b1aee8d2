"""The ops seen on a host's threads: one entry for each time one ran, with what surrounds it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.tables import vocabulary as words
from traceanalyzer.tables.launches import launch_calls
from traceanalyzer.tables.nesting import in_line_order, innermost, self_durations
from traceanalyzer.tables.vocabulary import Kind
from traceanalyzer.trace.columns import Strings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.tables.vocabulary import Names
    from traceanalyzer.trace.columns import Column, Plane


_FUNCTION: Final = re.compile(r"__(?:inference|forward|backward)_(?:__inference_)?(.*?)(?:_(\d+))?")
_CPU_DEVICE: Final = re.compile(r"/device:CPU:\d+$")
# reduce_dataset_op.cc: the op, and the stages of the dataset that it reduces.
_OF_REDUCE: Final = re.compile(r"ReduceIterator::|ReduceDatasetOp::DoCompute$")
_LOOPS: Final = re.compile(r"ReduceDatasetOp::DoCompute|ReduceIterator::(?:.*::)?Scan(?:\[\d+\])?")
_EAGER_RUN: Final = "EagerKernelExecute"  # eager/execute.cc: the op's kernel runs
_EAGER_OP_STAT: Final = "eager_op"  # of `EagerExecute`, from TensorFlow 2.12 on
_EAGER_SEND: Final = re.compile(r"_Send input \d+ from (\S+) to (\S+)")

TF_DATA: Final = "tf.data"  # stands in the column `function` for what a pipeline calls
DATASET_LOOP: Final = "loop over a dataset"  # the same for what reduces a dataset within a step
# Likewise for what TensorFlow computes while it makes a graph ready: constants, and shapes.
CONSTANTS: Final = "constant folding"
# Stands for the type of an input of which a trace tells none: OpKernel::ShapeTraceString
# (op_kernel.cc) leaves out resources, variants and references, and inputs that did not come.
UNTOLD_TYPE: Final = "?"
# log_memory.h, CONSTANT_FOLDING_STEP_ID: the step of whatever graph_runner.cc runs, for
# constant_folding.cc and eval_const_tensor.cc. No call of a function has it.
_FOLDING_STEP: Final = -1


@dataclass(frozen=True)
class Transfer:
    """An edge between devices, as a `_Send` or `_Recv` event tells it.

    Attributes:
        producer: Op that made the value.
        consumer: Op that takes it; empty where not told.
        source: Device of the producer, full string; empty where not told.
        target: Device of the consumer; likewise.
    """

    producer: str
    consumer: str
    source: str
    target: str


@dataclass(frozen=True)
class Move:
    """An input of an eager op, copied to the op's device.

    Attributes:
        event: Event of the plane.
        occurrence: The eager op's occurrence.
        source: Device it came from, full string.
        target: Device it went to, full string.
    """

    event: int
    occurrence: int
    source: str
    target: str


@dataclass(frozen=True, eq=False, kw_only=True)
class HostOps:
    """Ops that ran on one host's threads; arrays have one entry an occurrence unless said.

    Attributes:
        plane: The host plane.
        names: Its event names, classified.
        event: Index of the event in the plane, int64.
        name: Index into `names.op` and `names.type`, int32.
        kind: `Kind`, uint8.
        function: Function it ran in, `tf.data`, `constant folding`, or empty.
        definitions: Full name, with TensorFlow's counter, of each function so called.
        in_pipeline: Whether it ran on behalf of tf.data.
        is_handed_over: Whether it is an eager op that the thread did not run itself: TensorFlow's
            executor of eager ops did (eager/eager_executor.cc), in events that name no op, or in
            older traces in one `X:X`, an occurrence of its own.
        call: Step id of the call it ran in, 0 where unknown, int64.
        device: Device whose executor ran it, or where its inputs were sent to; mostly unknown.
        device_is_proved: Whether that is proof; an input that was sent to the CPU is none.
        self_ps: Duration less that of the ops nested in it, int64.
        input_types: Types of its inputs (host tracer level 3), `float;int32`, `?` for one that is
            not told.
        transfer: Index into `transfers`, -1 for none, int32.
        transfers: Distinct cross-device edges.
        moves: Inputs that were copied for eager ops.
        owner: For each event of the plane, the occurrence that did it (or is it), or -1.
        function_of_event: For each event of the plane, the function it ran in.
        call_of_event: For each event of the plane, the step id of the call, 0 where unknown; int64.
        order: The plane's events as from `in_line_order`.
        launches: Events that can launch work, as from `launch_calls`.
    """

    plane: Plane
    names: Names
    event: NDArray[np.int64]
    name: NDArray[np.int32]
    kind: NDArray[np.uint8]
    function: Strings
    definitions: dict[str, str]
    in_pipeline: NDArray[np.bool_]
    is_handed_over: NDArray[np.bool_]
    call: NDArray[np.int64]
    device: Strings
    device_is_proved: NDArray[np.bool_]
    self_ps: NDArray[np.int64]
    input_types: Strings
    transfer: NDArray[np.int32]
    transfers: tuple[Transfer, ...]
    moves: tuple[Move, ...]
    owner: NDArray[np.int64]
    function_of_event: Strings
    call_of_event: NDArray[np.int64]
    order: NDArray[np.int64]
    launches: NDArray[np.int64]


def host_ops(plane: Plane) -> HostOps:
    """Find the op occurrences of a host plane."""
    names = words.classify(plane)
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
    duration = plane.duration_ps[event]

    is_turn = names.is_executor[name_of]
    executor = innermost(plane, order, is_turn)
    # A thread may take a turn at other ops within a `_Send`: what it does there is not the send's.
    owner = np.where(is_op, number[:-1], number[innermost(plane, order, is_op | is_turn)])
    step_id = plane.integers("id")
    call_of_event = np.where(executor >= 0, step_id.values[executor], 0)
    labels, label_of_name = _function_labels(names)
    definitions = {labels[k]: names.op[i] for i, k in enumerate(label_of_name.tolist()) if k >= 0}
    label = np.append(label_of_name, -1)[
        np.append(name_of, -1)[innermost(plane, order, kind == Kind.FUNCTION_CALL)]
    ]
    functions = _function_of_event(plane, names, labels, label, executor, step_id, order)
    function_code = functions.codes[event]
    in_pipeline = _in_pipeline(plane, names, order)[event]
    in_pipeline |= function_code == functions.values.index(TF_DATA)
    in_pipeline &= function_code != functions.values.index(DATASET_LOOP)
    called_by_data = in_pipeline & (functions.codes[event] < 0) & (kind[event] != Kind.STAGE)
    by_data = functions.values.index(TF_DATA)
    function = np.where(called_by_data, by_data, functions.codes[event]).astype(np.int32)
    transfer, transfers = _transfers(plane, names, event)
    moves = _moves(plane, kind, parent, number)
    device, device_is_proved = _devices(plane, event, executor, step_id, transfer, transfers, moves)
    return HostOps(
        plane=plane,
        names=names,
        event=event,
        name=name_of[event],
        kind=kind[event],
        function=Strings(function, functions.values),
        definitions=definitions,
        in_pipeline=in_pipeline,
        is_handed_over=_handed_over(plane, names.kind[name_of[event]], number[parent]),
        call=call_of_event[event],
        device=device,
        device_is_proved=device_is_proved,
        self_ps=self_durations(duration, number[parent[event]]),
        input_types=_input_types(plane, event),
        transfer=transfer,
        transfers=transfers,
        moves=moves,
        owner=owner,
        function_of_event=functions,
        call_of_event=call_of_event,
        order=order,
        launches=launch_calls(plane),
    )


def _handed_over(
    plane: Plane, kind: NDArray[np.uint8], ran_in: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Tell which eager ops the executor of eager ops ran on a thread of its own.

    Args:
        plane: The host plane.
        kind: `Kind` that each occurrence's name tells: `X:X` is an op, for it is what a kernel
            writes as it runs, of an eager op too.
        ran_in: The occurrence around each event of the plane, -1 for none.
    """
    runs = plane.named(_EAGER_RUN)
    own = np.array([words.is_eager_executor_line(n) for n in plane.lines.name], np.bool_)
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
    types = {t: i for i, t in enumerate(sorted(set(names.type)))}
    type_code = np.array([types[t] for t in names.type], np.int32)[plane.name_of]
    outer = parent.clip(0)
    echoes: NDArray[np.bool_] = (
        ((kind == Kind.OP) | (kind == Kind.EAGER_OP))
        & names.is_unnamed[plane.name_of]
        & (parent >= 0)
        & (kind[outer] == Kind.EAGER_OP)
        & (type_code == type_code[outer])
    )
    return echoes


def _function_of_event(  # noqa: PLR0913, PLR0917 - columns of one plane, computed once by the caller
    plane: Plane,
    names: Names,
    labels: list[str],
    label: NDArray[np.int64],
    executor: NDArray[np.int64],
    step_id: Column,
    order: NDArray[np.int64],
) -> Strings:
    """Name the function that each event ran in; `tf.data` where a pipeline called it.

    On the calling thread the function is the enclosing call's. Elsewhere the step id leads there:
    the executor's turn has it, and so has the `FunctionRun` within the call. What is computed to
    make a graph ready has a step of its own, also within the call for which that is done.

    Args:
        plane: The host plane.
        names: Its event names, classified.
        labels: Labels of the functions that are called.
        label: Index of the label of the call that encloses each event, -1 for none.
        executor: The executor's turn that encloses each event, -1 for none.
        step_id: Step ids of events.
        order: The plane's events as from `in_line_order`.
    """
    ids, present = step_id.values, step_id.present
    tf_data, constants, loop = range(len(labels), len(labels) + 3)

    runs = plane.named(words.FUNCTION_RUN)
    runs = runs[present[runs] & (label[runs] >= 0)]
    known = dict(zip(ids[runs].tolist(), label[runs].tolist(), strict=True))
    captured_names = {n for n in plane.names if words.CAPTURED_FUNCTION.fullmatch(n)}
    captured = plane.named(*captured_names)
    captured = captured[present[captured]]
    known |= dict.fromkeys(ids[captured].tolist(), tf_data)
    known |= dict.fromkeys(ids[captured[_reduces(plane, order)[captured]]].tolist(), loop)
    known[_FOLDING_STEP] = constants

    turns = np.flatnonzero(names.is_executor[plane.name_of] & present)
    distinct, inverse = np.unique(ids[turns], return_inverse=True)
    of_turn = np.full(len(plane) + 1, -1, np.int64)
    of_turn[turns] = np.array([known.get(i, -1) for i in distinct.tolist()], np.int64)[
        inverse.reshape(-1)
    ]
    by_step = of_turn[executor]
    codes = np.where(by_step >= 0, by_step, label).astype(np.int32)
    return Strings(codes, (*labels, TF_DATA, CONSTANTS, DATASET_LOOP))


def _reduces(plane: Plane, order: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which events lie in what reduces a dataset, and not in a stage that feeds it.

    AutoGraph makes of a loop over a dataset a scan that is reduced.
    """
    around = np.array([_OF_REDUCE.match(name) is not None for name in plane.names], np.bool_)
    if not around.any():
        return np.zeros(len(plane), np.bool_)
    is_loop = np.array([_LOOPS.fullmatch(name) is not None for name in plane.names], np.bool_)
    inner = innermost(plane, order, around[plane.name_of])
    reduces: NDArray[np.bool_] = (inner >= 0) & is_loop[plane.name_of[inner.clip(0)]]
    return reduces


def _function_labels(names: Names) -> tuple[list[str], NDArray[np.int64]]:
    """Name called functions without the counter TensorFlow adds: `f`, and `f#2` for a second one.

    The counter depends on what else the program traced before; which of several comes first does
    not, so that the labels stay the same when the program is recorded again.
    """
    parsed = []
    for index, (kind, called) in enumerate(zip(names.kind, names.op, strict=True)):
        if kind == Kind.FUNCTION_CALL:
            parsed.append((*base_and_counter(called), called, index))
    labels: list[str] = []
    label_of_name = np.full(len(names.op), -1, np.int64)
    seen: Counter[str] = Counter()
    for base, _, _, index in sorted(parsed):
        seen[base] += 1
        label_of_name[index] = len(labels)
        labels.append(base if seen[base] == 1 else f"{base}#{seen[base]}")
    return labels, label_of_name


def base_and_counter(called: str) -> tuple[str, int]:
    """Return a function's name without what TensorFlow adds, and the counter it adds."""
    match = _FUNCTION.fullmatch(called)
    return (match[1], int(match[2] or 0)) if match else (called, 0)


def _in_pipeline(plane: Plane, names: Names, order: NDArray[np.int64]) -> NDArray[np.bool_]:
    pipeline_line = np.array([words.is_pipeline_line(n) for n in plane.lines.name], np.bool_)
    on_thread = pipeline_line[plane.line_of] if len(plane.lines) else np.zeros(0, np.bool_)
    is_pipeline = names.is_pipeline[plane.name_of]
    return on_thread | is_pipeline | (innermost(plane, order, is_pipeline) >= 0)


def _transfers(
    plane: Plane, names: Names, event: NDArray[np.int64]
) -> tuple[NDArray[np.int32], tuple[Transfer, ...]]:
    """Read the edges that `_Send` and `_Recv` events tell of (rendezvous key, from, to)."""
    is_transfer = np.array([words.role_of_type(t) == words.Role.TRANSFER for t in names.type])
    rows = np.flatnonzero(is_transfer[plane.name_of[event]])
    transfer = np.full(len(event), -1, np.int32)
    if not len(rows):
        return transfer, ()
    columns = [plane.strings(stat).take(event[rows]).to_list() for stat in ("key", "from", "to")]
    numbers: dict[Transfer, int] = {}
    for row, key, producer, consumer in zip(rows.tolist(), *columns, strict=True):
        found = _transfer(key or "", producer or "", consumer or "")
        if found:
            transfer[row] = numbers.setdefault(found, len(numbers))
    return transfer, tuple(numbers)


def _transfer(key: str, producer: str, consumer: str) -> Transfer | None:
    # rendezvous.cc, CreateKey: source;incarnation;target;edge name;frame:iteration
    parts = key.split(";")
    source, target = (parts[0], parts[2]) if len(parts) >= 5 else ("", "")  # noqa: PLR2004
    if not (source or producer):
        return None
    if not producer and len(parts) >= 5:  # noqa: PLR2004
        producer = re.sub(r"^edge_\d+_", "", parts[3])
    return Transfer(producer, consumer, source, target)


def _devices(  # noqa: PLR0913, PLR0917 - columns of one plane, computed once by the caller
    plane: Plane,
    event: NDArray[np.int64],
    executor: NDArray[np.int64],
    step_id: Column,
    transfer: NDArray[np.int32],
    transfers: tuple[Transfer, ...],
    moves: tuple[Move, ...],
) -> tuple[Strings, NDArray[np.bool_]]:
    """Tell the device of each occurrence, where something names it, and whether that is proof.

    A function has one executor a device. A send names the device it sends from, and with that the
    device of every op its executor ran. An eager op's inputs are sent to the op's device; but an op
    on a GPU takes some inputs in host memory: TensorFlow 2.3 to 2.11 sent these to the CPU first
    (kernel_and_device.cc), later versions, whose `EagerExecute` names the op, do not (tried on an
    emulated GPU). So one sent to the CPU is no proof, and in older traces tells nothing.
    """
    devices: dict[str, int] = {}
    codes = np.full(len(event), -1, np.int32)

    sends = np.flatnonzero(transfer >= 0)
    run_of = _runs(plane, executor[event], step_id) if len(sends) else np.zeros_like(event)
    device_of_run: dict[int, int] = {}
    contradicted: set[int] = set()
    for row in sends.tolist():
        told = transfers[transfer[row]]
        op_type = plane.names[plane.name_of[event[row]]].rpartition(":")[2]
        device = told.source if op_type.endswith("Send") else told.target
        if device:
            codes[row] = code = devices.setdefault(device, len(devices))
            if run_of[row] and device_of_run.setdefault(int(run_of[row]), code) != code:
                contradicted.add(int(run_of[row]))
    for key in contradicted:
        del device_of_run[key]
    if device_of_run:
        keys = np.array(sorted(device_of_run), np.int64)
        values = np.array([device_of_run[int(k)] for k in keys], np.int32)
        slot = np.searchsorted(keys, run_of).clip(max=len(keys) - 1)
        known = (keys[slot] == run_of) & (codes < 0)
        codes[known] = values[slot[known]]

    proved = codes >= 0
    for move in moves:
        if not _CPU_DEVICE.search(move.target) or _CPU_DEVICE.search(move.source):
            codes[move.occurrence] = devices.setdefault(move.target, len(devices))
            proved[move.occurrence] = True
    for move in moves if plane.has_stat(_EAGER_OP_STAT) else ():
        if not proved[move.occurrence]:
            codes[move.occurrence] = devices.setdefault(move.target, len(devices))
    return Strings(codes, tuple(devices)), proved


def _runs(plane: Plane, turn: NDArray[np.int64], step_id: Column) -> NDArray[np.int64]:
    """Return which executor's each turn is, 0 where unknown or where there is no turn (-1)."""
    run = plane.integers("_c")
    # Up to TensorFlow 2.6 (seen in the corpus) `_c` is the step's id, shared by all its executors.
    own = run.present[turn] & (run.values[turn] != step_id.values[turn])
    return np.where((turn >= 0) & own, run.values[turn], 0)


def _moves(
    plane: Plane, kind: NDArray[np.uint8], parent: NDArray[np.int64], number: NDArray[np.int64]
) -> tuple[Move, ...]:
    """Find the inputs copied for eager ops: `_Send input 0 from A to B` (eager/execute.cc)."""
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

    It is written only of an op with inputs: `()` is one input, of which nothing is told.
    """
    shapes = plane.strings("shape").take(event)
    types: dict[str, int] = {}
    code_of = [
        types.setdefault(_types_of_shape(text), len(types)) if text.startswith("(") else -1
        for text in shapes.values
    ]
    table = np.array([*code_of, -1], np.int32)  # the last entry serves code -1
    return Strings(table[shapes.codes], tuple(types))


def _types_of_shape(shape: str) -> str:
    parts = shape.strip("()").split(";")
    return ";".join(re.sub(r"\[.*\]$", "", part) or UNTOLD_TYPE for part in parts)
