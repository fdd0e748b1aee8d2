"""Finds where each op ran, how certain that is, and the evidence ("witness"), strongest first.

`capture_file`     the partition that ran it, or the device and memory of an eager op's results
`graph`            a graph of the program, unless an event is proof
`kernel`           a kernel launched for the op ran on that device
`compiled`         XLA made the op part of a kernel
`input_pipeline`   it ran on behalf of tf.data, whose functions are placed on the CPU, except for
                   iterators on a GPU: their ops appear at host tracer level 3
`executor`         a send names the device of the executor that ran it, or TensorFlow ran it on a
                   separate CPU device to prepare a graph (graph_runner.cc)
`transfer`         it is at one end of a send or of a copy with a known direction; proof only if the
                   op is known to be in the same function
`host_event`       at host tracer level 2, only ops on a CPU leave an event (`EVERY_OP_LEVEL`)
`no_gpu`           the trace shows no GPU in TensorFlow, although it would record one
`registry`         no TensorFlow version in the kernel tables has a GPU kernel for it
`summary`          it is an eager `Identity` directly before a summary is written: TensorFlow's
                   copy of the value to the host (summary_ops_v2.py, `write`)
`none`             there is no evidence
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from traceanalyzer.placement.kernel_types import is_for_cpus_alone
from traceanalyzer.tables.arrays import (
    Codes,
    Flags,
    Ints,
    distinct_rows,
    flags_at,
    mask,
    matches,
    pick,
)
from traceanalyzer.tables.device_events import DeviceEvents
from traceanalyzer.tables.functions import CONSTANTS
from traceanalyzer.tables.graph_nodes import OpRecord
from traceanalyzer.tables.host_ops import HostOps
from traceanalyzer.tables.occurrences import OpOccurrences
from traceanalyzer.tables.recording import TracerFacts
from traceanalyzer.tables.vocabulary import EVERY_OP_LEVEL, Kind, placement_of_device

_ANY_FUNCTION: Final = "*"  # no function has this name
_UNKNOWN_CALL: Final = 0
# The datasets with a GPU kernel (registry of 2.21): with prefetch_to_device or a
# MultiDeviceIterator, the end of a pipeline is placed on the GPU that it feeds.
_STAGES_WITH_GPU_KERNEL: Final = frozenset(
    f"Iterator::{stage}"
    for stage in ("DataServiceV4", "Finalize", "Generator", "Options", "Prefetch")
)


class ObservedPlacement(NamedTuple):
    """Where an op ran."""

    placement: str  #: `cpu`, `gpu:N`, `host_memory`, `xla`, `tpu:N`, `pluggable` or `unknown`
    certainty: str  #: `certain`, `likely` or `possible`
    source: str  #: the witness
    device: str | None = None  #: full device string, if the trace has it


class _End(NamedTuple):
    """The device at one end of a transfer, and whether the op provably ran on it."""

    device: str
    is_proof: bool


def decide(
    occurrences: OpOccurrences,
    facts: TracerFacts,
    in_pipeline: Flags,
    records: Sequence[OpRecord | None],
) -> list[ObservedPlacement]:
    """Return the placement of each row of a host's op table.

    `in_pipeline` marks the rows that ran on behalf of tf.data. The op type does not show this: an
    op that gets an element from a pipeline can be placed on a GPU.
    """
    host, n = occurrences.host, len(occurrences.rows)

    def seen(chosen: Flags) -> Flags:
        return flags_at(occurrences.of_occurrence[chosen], n)

    before_a_summary = _before_a_summary(host)
    rows = occurrences.rows.assign(
        in_pipeline=in_pipeline,
        has_kernel=flags_at(occurrences.of_device_event[occurrences.is_placing], n),
        of_executor=seen(host.device_is_proved),
        on_host=seen(host.kind == Kind.OP),
        is_stage=seen(host.kind == Kind.STAGE),
        of_summary=seen(before_a_summary) & ~seen(~before_a_summary),
    )
    witnesses = _Witnesses(occurrences, facts)
    return [
        witnesses.placement(row, record)
        for row, record in zip(rows.itertuples(), records, strict=True)
    ]


class _Witnesses:
    """The evidence for where the ops of a host's op table ran."""

    def __init__(self, occurrences: OpOccurrences, facts: TracerFacts) -> None:
        rows = occurrences.rows
        self._ends = _transfer_ends(occurrences.host, occurrences.device)
        # Ops of two functions can share a name. Ops that TensorFlow runs to prepare a graph have
        # the names of the graph's nodes.
        names = rows.loc[~rows["is_eager"] & (rows["function"] != CONSTANTS), "name"]
        self._shared = set(names[names.duplicated()])
        is_seen = facts.gpu_used or facts.pluggable_used or any(facts.accelerators.values())
        self._gpu_unseen = not (is_seen or facts.gpu_may_be_missed)
        # The kernel tables cover only CPUs and GPUs.
        self._gpus_alone = not facts.pluggable_used and not any(
            "TPU" in name for name in facts.accelerators
        )
        self._every_op = facts.host_level >= EVERY_OP_LEVEL

    def placement(self, row: Any, record: OpRecord | None) -> ObservedPlacement:  # noqa: ANN401 - pandas'
        if row.function == CONSTANTS:
            return ObservedPlacement("cpu", "certain", "executor", row.device)
        if record is not None and record.device is not None and not row.is_xla:
            recorded = _recorded(record, record.device, row)
            if recorded is not None and record.witness == "graph":
                seen = self._by_events(row) or self._by_name(row)
                return seen if seen is not None and seen.certainty == "certain" else recorded
            if recorded is not None:
                return recorded
        if record is not None and record.devices and row.device_assumed:
            # Calls placed it on different devices. The trace shows the device of only some of them.
            if {placement_of_device(device) for device in record.devices} == {"cpu"}:
                return ObservedPlacement("cpu", "certain", "capture_file")
            return ObservedPlacement("unknown", "possible", "capture_file")
        named = None if row.is_eager else self._by_name(row)
        return self._by_events(row) or named or self._by_type(row)

    def _by_events(self, row: Any) -> ObservedPlacement | None:  # noqa: ANN401
        device, sure = row.device, "likely" if row.device_assumed else "certain"
        where = placement_of_device(device or "")
        is_off_gpu = self._gpu_unseen or not self._every_op
        if row.is_xla:
            return ObservedPlacement(
                where if where.startswith("tpu") else "xla", "certain", "compiled", device
            )
        if device and (row.has_kernel or row.of_executor):
            return ObservedPlacement(
                where, sure, "kernel" if row.has_kernel else "executor", device
            )
        if row.is_stage or (row.in_pipeline and not row.is_eager and is_off_gpu):
            may_leave_cpu = not self._gpu_unseen and row.type in _STAGES_WITH_GPU_KERNEL
            sure = "likely" if may_leave_cpu else "certain"
            return ObservedPlacement("cpu", sure, "input_pipeline", device)
        # An eager op that had an input sent there.
        return ObservedPlacement(where, "likely", "transfer", device) if device else None

    def _by_name(self, row: Any) -> ObservedPlacement | None:  # noqa: ANN401
        own = [] if row.function is None else self._ends.get((row.function, row.name), [])
        is_unique = row.name not in self._shared
        ends = own or (self._ends.get((_ANY_FUNCTION, row.name), []) if is_unique else [])
        ends = [end for end in ends if end.is_proof] or ends
        sent = {placement_of_device(end.device) for end in ends}
        if len(sent) != 1:  # there are none, or they contradict
            return None
        where = sent.pop()
        if row.on_host and not self._every_op and where != "cpu":
            # Only ops on a CPU leave events: the name must belong to another op.
            return ObservedPlacement("cpu", "possible", "host_event")
        full = ends[0].device if ends[0].device.startswith("/job:") else None
        is_proved = bool(own) and ends[0].is_proof
        return ObservedPlacement(where, "certain" if is_proved else "likely", "transfer", full)

    def _by_type(self, row: Any) -> ObservedPlacement:  # noqa: ANN401
        if self._gpu_unseen:
            return ObservedPlacement("cpu", "likely", "no_gpu")
        if row.on_host and not self._every_op:
            return ObservedPlacement("cpu", "likely", "host_event")
        if self._gpus_alone and is_for_cpus_alone(row.type):
            return ObservedPlacement("cpu", "likely", "registry")
        if self._gpus_alone and row.of_summary:
            return ObservedPlacement("cpu", "possible", "summary")
        return ObservedPlacement("unknown", "possible", "none")


def _recorded(record: OpRecord, device: str, row: Any) -> ObservedPlacement | None:  # noqa: ANN401
    """Return where an op ran according to its record, unless the trace shows otherwise.

    An op on a GPU with results in host memory usually computes on the host. It may, however, have
    run a kernel or read inputs in GPU memory.
    """
    if row.device is not None and not device.endswith(row.device):  # a plane has no job
        return None
    if row.has_kernel and (record.is_on_host or not record.is_device_certain):
        return None
    if record.is_on_host:
        sure = "certain" if record.has_host_inputs else "likely"
        return ObservedPlacement("host_memory", sure, record.witness, device)
    sure = "certain" if record.is_device_certain else "likely"
    placement = placement_of_device(device)
    for_data = row.in_pipeline and not row.is_eager and placement == "cpu"
    return ObservedPlacement(
        placement, sure, "input_pipeline" if for_data else record.witness, device
    )


def _before_a_summary(host: HostOps) -> Flags:
    """Return a mask of eager `Identity` ops that run right before their thread writes a summary."""
    plane, eager = host.plane, np.flatnonzero(host.kind == Kind.EAGER_OP)
    event = host.event[eager]
    eager = eager[np.lexsort((plane.start_ps[event], plane.line_of[event]))]
    line = plane.line_of[host.event[eager]]
    is_copy, writes = (
        mask(t == name for t in host.names.type)[host.name[eager]]
        for name in ("Identity", "WriteSummary")
    )
    follows = is_copy[:-1] & writes[1:] & (line[:-1] == line[1:])
    return flags_at(eager[:-1][follows], len(host.event))


def _transfer_ends(host: HostOps, device: DeviceEvents) -> dict[tuple[str | None, str], list[_End]]:
    """Collect the ends of sends and copies, by function and op name, and by op name alone.

    A send names the devices of both ends. A copy's end in GPU memory is an op on that GPU, but its
    end in host memory can be an op on the CPU, or an op on a GPU with this value in host memory.
    The latter is usual for `_HostSend` and `_HostRecv` (graph_partition.cc): ignore this end.
    """
    functions = (*host.function.values, None)  # the last is that of code -1
    every_call = {
        functions[code]: calls
        for (code,), calls in _calls_by([host.function.codes], host.call).items()
    }
    # The calls that show an end: its function, name, device, whether that is proved, and its edge.
    shown = defaultdict[tuple[str | None, str | None, str | None, bool, object], set[int]](set)
    sent = host.transfer >= 0
    sends = _calls_by([host.function.codes[sent], host.transfer[sent]], host.call[sent])
    for (code, edge), calls in sends.items():
        transfer = host.transfers[edge]
        if functions[code] != CONSTANTS:  # its sends pass results to TensorFlow, not to a device
            shown[functions[code], transfer.producer, transfer.source, True, edge] |= calls
            shown[functions[code], transfer.consumer, transfer.target, True, edge] |= calls
    rows = np.flatnonzero(
        matches(device.direction, {"h2d", "d2h"}.__contains__)
        & (device.producer.present | device.consumer.present)
    )
    columns = (
        device.function, device.producer, device.consumer, device.direction,
        device.device, device.op,
    )  # fmt: skip
    copies = _calls_by(
        [column.codes[rows] for column in columns],
        pick(host.call_of_event, device.launch[rows], _UNKNOWN_CALL),
    )
    for codes, calls in copies.items():
        function, producer, consumer, direction, gpu, label = (
            column.values[code] if code >= 0 else None
            for column, code in zip(columns, codes, strict=True)
        )
        on_gpu, on_host = (consumer, producer) if direction == "h2d" else (producer, consumer)
        kept_on_host = "_HostSend" if direction == "h2d" else "_HostRecv"
        if (label or "").rpartition(":")[2] == kept_on_host:
            on_host = None
        edge_of_copy = (on_gpu, on_host, direction)
        shown[function, on_gpu, gpu, True, edge_of_copy] |= calls
        shown[function, on_host, "/device:CPU:0", False, edge_of_copy] |= calls
    ends: dict[tuple[str | None, str], list[_End]] = defaultdict(list)
    for (function, name, where, can_prove, _), calls in shown.items():
        # Calls of a function can be under different devices, so that one proves nothing for others.
        in_all = calls == every_call.get(function) and _UNKNOWN_CALL not in calls
        if name and where:
            for key in ((function, name), (_ANY_FUNCTION, name)):
                ends[key].append(_End(where, can_prove and in_all))
    return ends


def _calls_by(columns: Sequence[Codes], call: Ints) -> dict[tuple[int, ...], set[int]]:
    """Return the set of calls in which each combination of codes occurs."""
    calls, number = np.unique(call, return_inverse=True)
    found: dict[tuple[int, ...], set[int]] = defaultdict(set)
    for *codes, at in distinct_rows([*columns, number.reshape(-1)])[1].tolist():
        found[tuple(codes)].add(int(calls[at]))
    return found
