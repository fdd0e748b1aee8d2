"""Finds a run's CPU ops, recorded or predicted for a machine with GPUs, and their blockers."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pandas as pd

from traceanalyzer.capture_file.document import CaptureFile, is_session
from traceanalyzer.capture_file.visibility import only_some_sessions_have_no_gpu
from traceanalyzer.model import Certainty
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.by_registry import explanation_by_registry
from traceanalyzer.placement.calls import functions_of_datasets
from traceanalyzer.placement.devices import (
    CPU,
    Machine,
    is_of_type,
    machine_of,
    with_gpus,
)
from traceanalyzer.placement.explanations import (
    BY_STRATEGY,
    CALLS_DIFFER,
    PlacementExplanation,
    ReplayedExplanations,
    doubted,
)
from traceanalyzer.placement.host_copies import HostCopies
from traceanalyzer.placement.inference import OpenOp, OtherOps, by_strategies, inferred
from traceanalyzer.placement.keras import Keras
from traceanalyzer.placement.nodes import ARGUMENTS, RESULTS
from traceanalyzer.placement.on_a_gpu import (
    MOVED_IF_SMALL,
    OPTION,
    FreeChoices,
    gpus_required,
    pinned_by,
)
from traceanalyzer.placement.program import ProgramPlacement
from traceanalyzer.run import Host, Run, once_per_run
from traceanalyzer.tables.graph_nodes import OpRecord, base_names
from traceanalyzer.tables.host_ops import UNKNOWN_TYPE
from traceanalyzer.tables.silent_ops import DESCRIBES
from traceanalyzer.tables.vocabulary import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuOp:
    """An op that is on the CPU or computed there, with its known blockers."""

    op_id: str  #: its row of the op table
    host: str
    name: str
    type: str  #: its type, as in the trace
    function: str  #: the function it ran in, "" for none
    file: str | None  #: the user's file that created it
    line: int | None
    host_self_ps: int
    requested_device: str | None  #: None if unknown
    explanation: PlacementExplanation
    #: The function that was instantiated, and its node; "" if not captured.
    node: tuple[str, str] = ("", "")
    is_eager: bool = False


@dataclass(eq=False, kw_only=True)
class Analysis:
    """The CPU ops of a run, as recorded or as predicted for an assumed machine."""

    machine: Machine | None = None  #: the assumed machine, or None for the run's own
    cpu_ops: dict[str, CpuOp] = field(default_factory=dict)  #: by op id
    #: Ops on the CPU that only hand on or describe a value there, and that left no event.
    idle: dict[str, CpuOp] = field(default_factory=dict)
    #: Op ids of the input pipeline that are not on the CPU of that machine.
    off_the_cpu: set[str] = field(default_factory=set)
    #: Ops that the assumed machine puts on a GPU but computes on the host.
    on_host: dict[str, CpuOp] = field(default_factory=dict)
    #: The copies between GPU and host memory in functions, each with the ids of its ops.
    copies: list[tuple[HostCopies, tuple[str, ...]]] = field(default_factory=list)
    replayed: int = 0  #: how many ops were replayed on the assumed machine
    #: Ids of ops that could not be replayed because their nodes were not recorded. If the kernel
    #: registry shows that such an op is on the CPU, it is in `cpu_ops`.
    not_replayed: set[str] = field(default_factory=set)
    #: Ops that the program would not run on the assumed machine, by id, with what it does instead.
    replaced: dict[str, str] = field(default_factory=dict)
    #: Ops that are expected on a GPU but may be on the CPU, by id, with the reason.
    unsure: dict[str, str] = field(default_factory=dict)


_MAY_BE_PINNED: Final = f"{OPTION} is on and moves ops with small tensors to the host"
_SESSION: Final = "the op may run in the session with device_count={'GPU': 0}"
_NOT_REPLAYED: Final = "its node was not recorded, so its placement was not replayed"
_OF_ANOTHER_CALL: Final = "the graph may belong to another call of the function"
_MAYBE_CALLED_THERE: Final = "no graph or kernel shows on which device its function was called"
_SILENT: Final = ARGUMENTS | RESULTS | {"Const", "Identity", "NoOp"}  # leave no event
_TASK: Final = re.compile(r"/job:.*?/task:\d+")  # in the full name of a device
_NOT_ON_CPU: Final = "a replay of its placement does not put it on the CPU"


@once_per_run
def analyse(run: Run) -> Analysis:
    """Find and explain the CPU ops of a run. The result is empty if the run used no GPU."""
    found = Analysis()
    for host in run.hosts if run.gpu_used else ():
        recorded = _recorded(host)
        replayed = None if recorded is None else ReplayedExplanations(recorded)
        if replayed is not None and host.capture_file is not None:
            found.copies += _copies(host, replayed)
        for cpu_op, is_idle in _on_cpu(run, host, replayed):
            (found.idle if is_idle else found.cpu_ops)[cpu_op.op_id] = cpu_op
    return found


@once_per_run
def analyse_on_a_gpu(run: Run) -> Analysis | None:
    """Explain which ops of a run without a GPU would be on the CPU of a machine with GPUs.

    Assume one GPU, or as many as the program needs if it failed for lack of GPUs. Return None if
    the run had a GPU, or there is no capture beside the trace.
    """
    gpus = max([1, *(gpus_required(capture_file) for _, capture_file in run.captured)])
    found = Analysis()
    for host, capture_file in () if run.gpu_used else run.captured:
        found.machine = with_gpus(machine_of(capture_file), gpus)
        _add_host(found, run, host, capture_file)
    return None if found.machine is None else found


def _add_host(analysis: Analysis, run: Run, host: Host, capture_file: CaptureFile) -> None:
    """Predict where a host's ops would run on the assumed machine, and add them to the analysis."""
    machine, choices, keras = analysis.machine, FreeChoices(capture_file), Keras(capture_file)
    explanations = ReplayedExplanations(capture_file, machine)
    as_recorded = choices.unsure_scopes
    unsure = ReplayedExplanations(capture_file, machine, as_recorded) if as_recorded else None
    analysis.copies += _copies(host, explanations)
    analysis.off_the_cpu.update(_off_the_cpu(host, capture_file, explanations.program))
    for row, record in _rows(host):
        explanation = None if record is None else explanations.of(str(row.type), record)
        if row.role == Role.NO_WORK and explanation is None:
            continue
        if explanation is not None and _is_idle(row, record, explanations):
            analysis.idle[row.op_id] = _cpu_op(row, record, explanation)
            continue
        if record is None or (explanation is not None and explanation.basis == "none"):
            analysis.not_replayed.add(row.op_id)
            explanation = doubted(_by_registry(run, row), _NOT_REPLAYED)
            if explanation.blockers:
                analysis.cpu_ops[row.op_id] = _cpu_op(row, record, explanation)
            continue
        analysis.replayed += 1
        if gone := keras.gone(record.node):
            analysis.replaced[row.op_id] = gone
            continue
        found, on_host = analysis.cpu_ops, ""
        if explanation is None:
            found = analysis.on_host
            on_cpu = None if unsure is None else unsure.of(str(row.type), record)
            explanation = explanations.on_host(record)
            on_host = _why_on_host(capture_file, row, record)
            if why := on_host if on_cpu is None else choices.why_unsure(on_cpu):
                analysis.unsure[row.op_id] = why
        if explanation is not None:
            doubt = on_host or keras.doubt(record.function, record.node) or choices.doubt
            explanation = doubted(choices.weighed(explanation), doubt)
            found[row.op_id] = _cpu_op(row, record, explanation)
    _mark_copied(analysis)


def _mark_copied(analysis: Analysis) -> None:
    """Mark the ops that the host computes between copies out of GPU memory and into it."""
    for op_id in (op_id for _, op_ids in analysis.copies for op_id in op_ids):
        if cpu_op := analysis.on_host.get(op_id):
            explanation = cpu_op.explanation
            blockers = tuple(replace(b, is_copied=True) for b in explanation.blockers)
            explanation = replace(explanation, blockers=blockers)
            analysis.on_host[op_id] = replace(cpu_op, explanation=explanation)


def _why_on_host(capture_file: CaptureFile, row: Any, record: OpRecord) -> str:  # noqa: ANN401
    """Return why an op that is placed on a GPU may still run on the host, or ""."""
    is_of_session = is_session(record.function)
    if record.signatures:
        return ""
    if is_of_session and only_some_sessions_have_no_gpu(capture_file):
        return _SESSION
    is_small = set(_types(row.input_types) or ()) <= MOVED_IF_SMALL
    is_on = pinned_by(capture_file, is_of_session=is_of_session) is not None
    return _MAY_BE_PINNED if is_on and is_small else ""


def _off_the_cpu(host: Host, capture_file: CaptureFile, program: ProgramPlacement) -> Iterator[str]:
    """Yield the ids of input pipeline ops that may be placed on a device other than the CPU."""
    nodes = {
        placed.placement.nodes.graph.names[at]
        for function in functions_of_datasets(capture_file)
        for placed in program.functions.get(function, ())
        for at, device in placed.placement.devices.items()
        if device and not is_of_type(device, CPU)
    }
    ops = host.tables.ops
    is_inside = ops["in_input_pipeline"] & ops["function"].notna()
    yield from ops.loc[is_inside & ops["name"].isin(nodes), "op_id"]


def _recorded(host: Host) -> CaptureFile | None:
    joined = host.tables.joined
    return host.capture_file or (None if joined is None else joined.graphs)


def _copies(
    host: Host, replayed: ReplayedExplanations
) -> Iterator[tuple[HostCopies, tuple[str, ...]]]:
    """Yield the copies in a host's functions, each with the ids of the ops on the host's side."""
    of_node = defaultdict(list)
    for row, record in _rows(host):
        if record is not None and record.node:
            of_node[record.function, record.node].append(str(row.op_id))
    for found in replayed.copies():
        ids = (op_id for node in found.computed for op_id in of_node[found.function, node])
        yield found, tuple(ids)


def _on_cpu(
    run: Run, host: Host, replayed: ReplayedExplanations | None
) -> Iterator[tuple[CpuOp, bool]]:
    """Yield each CPU op of a host with its explanation, and whether the op does no work."""
    joined = host.tables.joined
    graphs = None if joined is None else joined.graphs
    by_strategy: dict[str, Certainty] = {}
    if replayed is not None and graphs is not None:
        by_strategy.update(by_strategies(replayed.program, is_distributed=_is_distributed(host)))
    found: list[tuple[Any, OpRecord | None, PlacementExplanation]] = []
    for row, record in _rows(host):
        if row.placement != "cpu":
            continue
        explanation: PlacementExplanation | None = None
        if replayed is not None and record is not None:
            explanation = replayed.of(str(row.type), record) or PlacementExplanation(
                type=str(row.type), contradiction=_NOT_ON_CPU
            )
        if explanation is None or (explanation.basis == "none" and not explanation.contradiction):
            explanation = _by_registry(run, row)
        if graphs is not None and record is not None:
            explanation = _by_graph(explanation, by_strategy.get(record.function))
            is_of_call = any(b.kind is BlockerKind.DEFAULT_DEVICE for b in explanation.blockers)
            if is_of_call and not _shows_call(host, graphs, record):
                explanation = doubted(explanation, _MAYBE_CALLED_THERE, "possible")
        found.append((row, record, explanation))
    by_others = {} if host.capture_file is not None else _inferred(run, host, found)
    for row, record, explanation in found:
        explained = by_others.get(row.op_id, explanation)
        if explanation.doubt == _MAYBE_CALLED_THERE:
            explained = _called_there(explanation, explained)
        yield _cpu_op(row, record, explained), _is_idle(row, record, replayed)


def _by_graph(
    explanation: PlacementExplanation, strategy: Certainty | None
) -> PlacementExplanation:
    """Add doubts to an explanation that is based on a graph from outside a capture.

    `strategy` is the certainty that a strategy requested the devices, or None if none did.
    """
    if explanation.doubt == CALLS_DIFFER:
        explanation = doubted(explanation, CALLS_DIFFER, "possible")
    if strategy is not None:
        is_full = all(
            blocker.kind is BlockerKind.REQUEST and blocker.requested_device.startswith("/job:")
            for blocker in explanation.blockers
        )
        certainty: Certainty = strategy if is_full else "possible"
        return replace(explanation, certainty=certainty, doubt=BY_STRATEGY)
    return doubted(explanation, _OF_ANOTHER_CALL)


def _called_there(
    replayed: PlacementExplanation, inferred: PlacementExplanation
) -> PlacementExplanation:
    """Return `replayed`, as "likely" if other ops also show a call of the function on the CPU."""
    kinds = {blocker.kind for blocker in inferred.blockers}
    if inferred.basis != "inference" or kinds != {BlockerKind.DEFAULT_DEVICE}:
        return replayed
    return replace(replayed, certainty="likely", doubt=_OF_ANOTHER_CALL)


def _inferred(
    run: Run, host: Host, found: list[tuple[Any, OpRecord | None, PlacementExplanation]]
) -> dict[str, PlacementExplanation]:
    ops, transfers = host.tables.ops, host.tables.transfers
    unexplained = [
        OpenOp(
            op_id=row.op_id,
            name=str(row.name),
            function=_text(row.function),
            is_eager=bool(row.is_eager),
            types=tuple({*_text(row.input_types).split(";")} - {"", UNKNOWN_TYPE}),
            explanation=explanation,
        )
        for row, _, explanation in found
        if (explanation.basis == "none" and not explanation.contradiction)
        or explanation.doubt == _MAYBE_CALLED_THERE
    ]
    there = ops["placement"].astype(str).str.startswith("gpu") & (ops["role"] == Role.COMPUTE)
    there &= ~ops["is_eager"]
    sent = transfers[(transfers["direction"] == "h2d") & transfers["function"].notna()]
    on_gpu = [
        *((_text(o.function), str(o.name), str(o.type)) for o in ops[there].itertuples()),
        *((str(t.function), str(t.consumer_name), "") for t in sent.itertuples()),
    ]
    refused = [
        (_text(row.function), str(row.name), explanation.type)
        for row, _, explanation in found
        if explanation.basis == "registry" and not row.is_eager
    ]
    eager_types = {*ops["type"][ops["is_eager"]]}
    other = OtherOps(on_gpu, refused, eager_types, _is_distributed(host))
    return inferred(unexplained, other, run.tensorflow_version)


def _is_distributed(host: Host) -> bool:
    """Return whether the program has several tasks."""
    devices = host.tables.ops["device"].dropna().unique()
    return len({task[0] for device in devices if (task := _TASK.match(device))}) > 1


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _is_idle(
    row: Any,  # noqa: ANN401
    record: OpRecord | None,
    replayed: ReplayedExplanations | None,
) -> bool:
    """Return whether an op does no work: it only forwards or describes a value, on one device.

    Nodes that TensorFlow itself adds around branches and inlined functions count, too.
    """
    if row.role != Role.NO_WORK:
        return False
    if replayed is None or record is None or row.type in DESCRIBES or any(base_names(record.node)):
        return True
    return not replayed.is_at_border(record)


def _shows_call(host: Host, graphs: CaptureFile, record: OpRecord) -> bool:
    """Return whether the recording shows which ops of an op's function ran on a GPU.

    True if it contains kernels, the function's partitions, or the device of each of its ops.
    """
    function = graphs.function(record.function)
    has_kernels = any(host.tables.facts.accelerators.values())
    return has_kernels or all(
        instance.partitions
        or all(
            device or op in _SILENT
            for op, device in zip(instance.input.ops, instance.assigned, strict=True)
        )
        for instance in (function.instances if function else ())
    )


def _by_registry(run: Run, row: Any) -> PlacementExplanation:  # noqa: ANN401
    return explanation_by_registry(str(row.type), _types(row.input_types), run.tensorflow_version)


def _rows(host: Host) -> Iterator[tuple[Any, OpRecord | None]]:
    ops, joined = host.tables.ops, host.tables.joined
    records = (None,) * len(ops) if joined is None else joined.records
    for row, record in zip(ops.itertuples(index=False), records, strict=True):
        if row.role in {Role.COMPUTE, Role.NO_WORK}:
            yield row, record


def _types(text: object) -> list[str] | None:
    types = [each for each in text.split(";") if each] if isinstance(text, str) else [UNKNOWN_TYPE]
    return None if UNKNOWN_TYPE in types else types


def _cpu_op(row: Any, record: OpRecord | None, explanation: PlacementExplanation) -> CpuOp:  # noqa: ANN401
    node = ("", "") if record is None else (record.function, record.node)
    if explanation.inferred_from and not row.is_eager:
        node = (_text(row.function), str(row.name))
    return CpuOp(
        op_id=row.op_id,
        host=str(row.host),
        name=str(row.name),
        type=str(row.type),
        function=_text(row.function),
        file=row.source_file if isinstance(row.source_file, str) else None,
        line=None if pd.isna(row.source_line) else int(row.source_line),
        host_self_ps=int(row.host_self_ps),
        requested_device=row.requested_device if isinstance(row.requested_device, str) else None,
        explanation=explanation,
        node=node,
        is_eager=bool(row.is_eager),
    )
