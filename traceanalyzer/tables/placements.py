"""Where each op ran, how sure that is, and the witness it rests on.

The first rule of the decision procedure: what the trace itself shows, and what a capture recorded
beside it. The witnesses, from the strongest to the weakest:

`capture_file`     the partition that ran it, as the capture recorded it, or the device of what an
                   eager op made; and the memory it was made in
`kernel`           a kernel launched for the op ran on that device
`compiled`         XLA made the op part of a kernel
`input_pipeline`   it ran on behalf of tf.data, whose functions are placed on the CPU, but for those
                   of an iterator that is on a GPU: its ops show at host tracer level 3
`executor`         a send names the device of the executor that ran it, or that it was sent from;
                   or it is what TensorFlow computes, on a CPU of its own, to make a graph ready
                   (graph_runner.cc)
`transfer`         the far end of a send, or of a copy whose direction is known; proof only where
                   the function is known to be the op's own
`allocator`        its output was allocated on a GPU
`host_event`       at host tracer level 2 only ops placed on a CPU leave an event (op_kernel.cc:
                   a kernel on a GPU is never `expensive`; executor.cc: only expensive ones are
                   recorded below level 3)
`no_gpu`           nothing in the trace shows that TensorFlow had a GPU, and it would if it had
`registry`         no version of TensorFlow whose kernels are known has one for it on a GPU
`summary`          it is an eager `Identity` that the writing of a summary follows at once: the
                   library's, which copies the value to the host (summary_ops_v2.py, `write`)
`none`             nothing tells
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import numpy as np

from traceanalyzer.placement.support import is_for_cpus_alone
from traceanalyzer.tables.host_ops import CONSTANTS
from traceanalyzer.tables.op_occurrences import launch_functions
from traceanalyzer.tables.vocabulary import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from traceanalyzer.tables.device_events import DeviceEvents
    from traceanalyzer.tables.host_ops import HostOps
    from traceanalyzer.tables.joined import OpRecord
    from traceanalyzer.tables.op_occurrences import OpOccurrences
    from traceanalyzer.tables.tracer import TracerFacts


_DEVICE: Final = re.compile(r"(.*)/device:([A-Z_]+):(\d+)")
_ANY_FUNCTION: Final = "*"  # no function is called so
_UNKNOWN_CALL: Final = 0
_Key = TypeVar("_Key")
_GPU_ALLOCATOR: Final = re.compile(r"GPU_(\d+)_bfc")
# The datasets that have a GPU kernel (registry of 2.21): with prefetch_to_device, or a
# MultiDeviceIterator, the end of a pipeline is placed on the GPU it feeds.
_STAGES_WITH_GPU_KERNEL: Final = frozenset(
    f"Iterator::{stage}"
    for stage in ("DataServiceV4", "Finalize", "Generator", "Options", "Prefetch")
)
_EVERY_OP_LEVEL: Final = 3  # from here on ops placed on a GPU leave host events too


@dataclass(frozen=True)
class Placement:
    """Where an op ran.

    Attributes:
        placement: `cpu`, `gpu:N`, `host_memory`, `xla`, `tpu:N`, `pluggable` or `unknown`.
        certainty: `certain`, `likely` or `possible`.
        source: The witness.
        device: Full device string where the trace has it, else None.
    """

    placement: str
    certainty: str
    source: str
    device: str | None = None


def placement_of_device(device: str) -> str:
    """Translate a device string into a placement: `/device:GPU:0` into `gpu:0`."""
    match = _DEVICE.fullmatch(device)
    if not match:
        return "unknown"
    kind, number = match[2], match[3]
    if kind == "CPU":
        return "cpu"
    return f"{kind.lower()}:{number}" if kind in {"GPU", "TPU"} else "pluggable"


@dataclass(frozen=True)
class _Told:
    """What transfers and copies tell of an op by name: its device, and whether that is proof."""

    device: str
    is_proof: bool


def decide(  # noqa: PLR0913, PLR0917 - the evidence of one host, side by side
    occurrences: OpOccurrences,
    host: HostOps | None,
    device: DeviceEvents,
    facts: TracerFacts,
    allocations: pd.DataFrame,
    in_pipeline: NDArray[np.bool_],
    records: Sequence[OpRecord | None],
) -> list[Placement]:
    """Decide the placement of each row of a host's op table.

    Args:
        occurrences: Rows and what belongs to them.
        host: Op occurrences on the host's threads.
        device: Events of its devices.
        facts: What its tracers recorded.
        allocations: Its allocations.
        in_pipeline: Rows that were seen to run on behalf of tf.data; a type alone does not tell,
            since an op that takes an element can be placed on a GPU.
        records: What the capture file tells of each row; empty without one.
    """
    rows = occurrences.rows
    n = len(rows)
    has_kernel = _flags(occurrences.of_device_event[occurrences.is_placing], n)
    of_executor = on_host = is_stage = of_summary = np.zeros(n, np.bool_)
    if host is not None:
        of_executor = _flags(occurrences.of_occurrence[host.device_is_proved], n)
        on_host = _flags(occurrences.of_occurrence[host.kind == Kind.OP], n)
        is_stage = _flags(occurrences.of_occurrence[host.kind == Kind.STAGE], n)
        copies = _before_a_summary(host)
        of_summary = _flags(occurrences.of_occurrence[copies], n)
        of_summary &= ~_flags(occurrences.of_occurrence[~copies], n)
    gpu_unseen = not (
        facts.gpu_used
        or facts.pluggable_used
        or facts.gpu_may_be_missed
        or any(facts.accelerators.values())
    )
    # Kernels for other devices than GPUs are in no table of ours.
    gpus_alone = not facts.pluggable_used and not any("TPU" in name for name in facts.accelerators)
    every_op = facts.host_level >= _EVERY_OP_LEVEL
    told = _transfer_ends(host, device)
    allocated = _gpu_outputs(allocations)
    # Two functions may each have an op of the same name: a name alone tells only of a single one.
    # What TensorFlow computes to make a graph ready has the names of the graph.
    names = rows.loc[~rows["is_eager"] & (rows["function"] != CONSTANTS), "name"]
    shared = set(names[names.duplicated()])
    placements = []
    columns = ("function", "name", "type", "device", "device_assumed", "is_eager", "is_xla")
    for i, (function, name, op_type, where, assumed, is_eager, is_xla) in enumerate(
        zip(*(rows[c] for c in columns), strict=True)
    ):
        if function == CONSTANTS:
            placements.append(Placement("cpu", "certain", "executor", where))
            continue
        recorded = _recorded(records[i], where, has_kernel=bool(has_kernel[i])) if records else None
        if recorded is not None and not is_xla:
            ran_for_data = bool(in_pipeline[i]) and not is_eager and recorded.placement == "cpu"
            placements.append(
                replace(recorded, source="input_pipeline") if ran_for_data else recorded
            )
            continue
        divided = records[i] if records and assumed else None
        if divided is not None and divided.devices:
            placements.append(_divided(divided.devices))
            continue
        of_data = bool(in_pipeline[i]) and not is_eager and (gpu_unseen or not every_op)
        by_name = not is_eager and name not in shared
        placements.append(
            _decide_row(
                device=where,
                device_assumed=assumed,
                has_kernel=bool(has_kernel[i]),
                is_xla=is_xla,
                of_data=of_data or bool(is_stage[i]),
                on_executor=bool(of_executor[i]),
                told=_lookup(told, function, name, by_name=by_name) if not is_eager else None,
                allocated=allocated.get(name) if by_name else None,
                as_cpu_op=bool(on_host[i]) and not every_op,
                may_leave_cpu=not gpu_unseen and op_type in _STAGES_WITH_GPU_KERNEL,
                gpu_unseen=gpu_unseen,
                is_for_cpus=gpus_alone and is_for_cpus_alone(op_type),
                of_summary=gpus_alone and bool(of_summary[i]),
            )
        )
    return placements


def _recorded(record: OpRecord | None, device: str | None, *, has_kernel: bool) -> Placement | None:
    """Return where the capture file says that an op ran, unless the trace shows another device.

    What an op on a GPU makes in host memory it mostly computes there too, but a kernel may have run
    all the same; and one that took values in GPU memory may have looked at them.
    """
    if record is None or record.device is None:
        return None
    if device is not None and not record.device.endswith(device):  # a plane's name is its end
        return None
    placement = placement_of_device(record.device)
    if has_kernel and (record.is_on_host or not record.is_device_certain):
        return None
    if not record.is_on_host:
        sure = "certain" if record.is_device_certain else "likely"
        return Placement(placement, sure, "sidecar", record.device)
    sure = "certain" if record.has_host_inputs else "likely"
    return Placement("host_memory", sure, "sidecar", record.device)


def _divided(devices: tuple[str, ...]) -> Placement:
    """Return where an op ran that some calls placed on one device and others on another.

    The trace tells the device of some of its calls only: it must not stand for all of them.
    """
    kinds = {placement_of_device(device) if device else "unknown" for device in devices}
    if kinds == {"cpu"}:
        return Placement("cpu", "certain", "sidecar")
    return Placement("unknown", "possible", "sidecar")


def _decide_row(  # noqa: C901, PLR0911, PLR0913 - a decision table reads best as one
    *,
    device: str | None,
    device_assumed: bool,
    has_kernel: bool,
    is_xla: bool,
    of_data: bool,
    on_executor: bool,
    told: _Told | None,
    allocated: str | None,
    as_cpu_op: bool,
    may_leave_cpu: bool,
    gpu_unseen: bool,
    is_for_cpus: bool,
    of_summary: bool,
) -> Placement:
    sure = "likely" if device_assumed else "certain"
    if is_xla:
        on_tpu = placement_of_device(device or "").startswith("tpu")
        return Placement(
            placement_of_device(device or "") if on_tpu else "xla", "certain", "compiled", device
        )
    if has_kernel and device:
        return Placement(placement_of_device(device), sure, "kernel", device)
    if on_executor and device:
        return Placement(placement_of_device(device), sure, "executor", device)
    if of_data:
        sure = "likely" if may_leave_cpu else "certain"
        return Placement("cpu", sure, "input_pipeline", device)
    if device:  # an eager op, one of whose inputs was sent there
        return Placement(placement_of_device(device), "likely", "transfer", device)
    where = placement_of_device(told.device) if told else allocated
    if as_cpu_op and where not in {None, "cpu"}:
        # It left an event as only ops on a CPU do; what is told must be of another of its name.
        return Placement("cpu", "possible", "host_event")
    if told and where:
        full = told.device if told.device.startswith("/job:") else None
        return Placement(where, "certain" if told.is_proof else "likely", "transfer", full)
    if where:
        return Placement(where, "likely", "allocator")
    if gpu_unseen:
        return Placement("cpu", "likely", "no_gpu")
    if as_cpu_op:
        return Placement("cpu", "likely", "host_event")
    if is_for_cpus:
        return Placement("cpu", "likely", "registry")
    if of_summary:
        return Placement("cpu", "possible", "summary")
    return Placement("unknown", "possible", "none")


def _before_a_summary(host: HostOps) -> NDArray[np.bool_]:
    """Tell which occurrences are eager identities whose thread then writes a summary, eagerly."""
    flags = np.zeros(len(host.event), np.bool_)
    eager = np.flatnonzero(host.kind == Kind.EAGER_OP)
    if "WriteSummary" not in host.names.type or not len(eager):
        return flags
    line, start = host.plane.line_of[host.event[eager]], host.plane.start_ps[host.event[eager]]
    order = np.lexsort((start, line))
    types = np.array(host.names.type, object)[host.name[eager[order]]]
    follows = (line[order][1:] == line[order][:-1]) & (types[1:] == "WriteSummary")
    flags[eager[order][:-1][follows & (types[:-1] == "Identity")]] = True
    return flags


def _flags(row_of: NDArray[np.int64], size: int) -> NDArray[np.bool_]:
    flags = np.zeros(size, np.bool_)
    flags[row_of[row_of >= 0]] = True
    return flags


def _lookup(
    told: dict[tuple[str | None, str], list[_Told]],
    function: str | None,
    name: str,
    *,
    by_name: bool,
) -> _Told | None:
    """Return what is told of an op, of its own function or, if its name is its alone, of any."""
    found = told.get((function, name), []) if function is not None else []
    is_own = bool(found)
    if not found and by_name:
        found = told.get((_ANY_FUNCTION, name), [])
    proofs = [t for t in found if t.is_proof] or found
    if len({placement_of_device(t.device) for t in proofs}) != 1:
        return None  # nothing told, or contradictions
    return _Told(proofs[0].device, is_proof=proofs[0].is_proof and is_own)


def _transfer_ends(
    host: HostOps | None, device: DeviceEvents
) -> dict[tuple[str | None, str], list[_Told]]:
    """Collect what sends and copies tell of ops, by function and name, and by name alone.

    A rendezvous key names the devices of both ends. A copy tells less: its end in GPU memory is an
    op on that GPU, but its end in host memory may be an op on the CPU or one on a GPU that keeps
    this value in host memory.
    """
    ends: dict[tuple[str | None, str], list[_Told]] = {}

    def tell(function: str | None, name: str | None, told: _Told) -> None:
        if name and told.device:
            for key in ((function, name), (_ANY_FUNCTION, name)):
                ends.setdefault(key, []).append(told)

    if host is None:
        calls_of: dict[str | None, set[int]] = {}
    else:
        calls_of = _calls_of_functions(host)
        rows = np.flatnonzero(host.transfer >= 0)
        sent = zip(host.function.take(rows).to_list(), host.transfer[rows].tolist(), strict=True)
        calls = _grouped(zip(sent, host.call[rows].tolist(), strict=True))
        for (function, number), made in calls.items():
            if function == CONSTANTS:
                continue  # it hands a result to TensorFlow, not to a device
            transfer = host.transfers[number]
            is_proof = _is_every_call(made, calls_of.get(function))
            tell(function, transfer.producer, _Told(transfer.source, is_proof=is_proof))
            tell(function, transfer.consumer, _Told(transfer.target, is_proof=is_proof))
    for edge, made in _copy_edges(host, device).items():
        on_gpu, on_host = edge.producer, edge.consumer
        if edge.direction == "h2d":
            on_gpu, on_host = on_host, on_gpu
        is_proof = _is_every_call(made, calls_of.get(edge.function))
        tell(edge.function, on_gpu, _Told(edge.device, is_proof=is_proof))
        tell(edge.function, on_host, _Told("/device:CPU:0", is_proof=False))
    return ends


def _calls_of_functions(host: HostOps) -> dict[str | None, set[int]]:
    """Return the calls in which ops of each function were seen."""
    calls, call = np.unique(host.call, return_inverse=True)
    pairs = np.unique((host.function.codes + 1) * np.int64(len(calls)) + call.reshape(-1))
    functions = [None, *host.function.values]
    return _grouped(
        (functions[pair // len(calls)], int(calls[pair % len(calls)])) for pair in pairs.tolist()
    )


def _grouped(pairs: Iterable[tuple[_Key, int]]) -> dict[_Key, set[int]]:
    groups: dict[_Key, set[int]] = {}
    for key, value in set(pairs):
        groups.setdefault(key, set()).add(value)
    return groups


def _is_every_call(shown: set[int], calls: set[int] | None) -> bool:
    """Tell whether what these calls of a function show is shown by all of them.

    A function may be called under another device the next time: what one call shows proves nothing
    of a call that did not show it.
    """
    return shown == calls and _UNKNOWN_CALL not in shown


class _CopyEdge(NamedTuple):
    """What copies have in common."""

    function: str | None
    producer: str | None
    consumer: str | None
    direction: str
    device: str


def _copy_edges(host: HostOps | None, device: DeviceEvents) -> dict[_CopyEdge, set[int]]:
    """Return the distinct edges that copies tell of, with the calls that made them.

    The end of a `_HostSend` or `_HostRecv` is left out: as a rule that is an op on a GPU which
    keeps the value in host memory (graph_partition.cc).
    """
    rows = np.flatnonzero(
        device.direction.present & (device.producer.present | device.consumer.present)
    )
    functions = launch_functions(host, device).take(rows).to_list()
    told = [
        column.take(rows).to_list()
        for column in (device.producer, device.consumer, device.direction, device.device)
    ]
    kinds = [(label or "").rpartition(":")[2] for label in device.op.take(rows).to_list()]
    call_of_event = np.array([_UNKNOWN_CALL]) if host is None else np.append(host.call_of_event, 0)
    calls = call_of_event[device.sure_launch[rows]].tolist()
    return _grouped(
        (
            _CopyEdge(
                function,
                None if (direction, kind) == ("h2d", "_HostSend") else producer,
                None if (direction, kind) == ("d2h", "_HostRecv") else consumer,
                direction,
                where,
            ),
            call,
        )
        for function, kind, call, producer, consumer, direction, where in zip(
            functions, kinds, calls, *told, strict=True
        )
        if direction in {"h2d", "d2h"} and where
    )


def _gpu_outputs(allocations: pd.DataFrame) -> dict[str, str]:
    """Return the GPU that each op's outputs were allocated on, where it is one."""
    made = allocations[
        allocations["is_allocation"]
        & (allocations["region_type"] == "output")
        & allocations["op_name"].notna()
    ]
    pairs = made[["op_name", "allocator"]].drop_duplicates()
    found: dict[str, set[str]] = {}
    for name, allocator in zip(pairs["op_name"], pairs["allocator"], strict=True):
        if match := _GPU_ALLOCATOR.fullmatch(str(allocator)):
            found.setdefault(str(name), set()).add(f"gpu:{match[1]}")
    return {name: min(gpus) for name, gpus in found.items() if len(gpus) == 1}
