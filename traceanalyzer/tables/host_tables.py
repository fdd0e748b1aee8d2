"""Builds the tables of one host."""

import re
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pandas as pd

from traceanalyzer.capture_file.document import CaptureFile
from traceanalyzer.capture_file.graph_def import type_name
from traceanalyzer.placement.devices import LOCAL
from traceanalyzer.tables.arrays import categorical, coded, filled, flags_at, mapped, mask
from traceanalyzer.tables.compiled_ops import CALLBACKS, called_python
from traceanalyzer.tables.copies import with_merged_copies
from traceanalyzer.tables.device_events import device_events, device_planes
from traceanalyzer.tables.functions import with_recorded_functions
from traceanalyzer.tables.host_ops import host_ops, host_plane
from traceanalyzer.tables.joined import Joined, join_eager, join_graphs, join_rows
from traceanalyzer.tables.occurrences import OpOccurrences, gather_occurrences
from traceanalyzer.tables.ops import op_rows
from traceanalyzer.tables.preparation import NO_CALLS, python_calls
from traceanalyzer.tables.program_graphs import GraphFinder
from traceanalyzer.tables.recording import TracerFacts, gpu_names, tracer_facts
from traceanalyzer.tables.schema import ALLOCATIONS
from traceanalyzer.tables.silent_ops import with_silent_ops
from traceanalyzer.tables.stages import NO_PIPELINES, NO_STAGES, Pipelines, pipelines
from traceanalyzer.tables.steps import step_rows
from traceanalyzer.tables.thread_activity import ThreadActivity, thread_activity
from traceanalyzer.tables.transfers import count_transfers, transfer_rows
from traceanalyzer.tables.vocabulary import Kind, Role
from traceanalyzer.trace.columns import Plane, Trace

# `BFCAllocator::AddTraceMe` (bfc_allocator.cc) of older versions, if no op was running.
_NOTHING: Final = {"", "(null)"}
_LEAST_SHARE: Final = 0.05
_FEWEST: Final = 3  # ops that make a share meaningful


@dataclass(frozen=True, eq=False, kw_only=True)
class HostTables:
    """One host's rows of each table. `Schema.frame` sets the dtypes of their columns."""

    ops: pd.DataFrame
    kernels: pd.DataFrame
    transfers: pd.DataFrame
    allocations: pd.DataFrame
    steps: pd.DataFrame
    facts: TracerFacts
    threads: ThreadActivity | None = None  #: None without a host plane
    joined: Joined | None = None  #: the records of its ops in the capture file
    stages: pd.DataFrame = field(
        default_factory=lambda: NO_STAGES
    )  #: stages of its input pipelines
    python_calls: pd.DataFrame = field(
        default_factory=lambda: NO_CALLS
    )  #: calls of functions in Python; see `preparation.python_calls`
    pipelines: Pipelines = NO_PIPELINES  #: when elements were requested and stages worked


def host_tables(  # noqa: PLR0913, PLR0917 - the trace, and all that lies beside it
    host_name: str,
    host_index: int,
    trace: Trace,
    capture_file: CaptureFile | None = None,
    session: int | None = None,
    graphs: GraphFinder | None = None,
) -> HostTables:
    """Build the tables of one host.

    `session` is the capture file's session that wrote the trace, if known. Without a capture file,
    `graphs` in other files are used.
    """
    # A capture has the ops of the functions that XLA compiles.
    has_device = any(len(plane) for plane in device_planes(trace))
    with_compiled = capture_file is None and not has_device
    host = host_ops(host_plane(trace), with_compiled=with_compiled)
    if capture_file is not None:
        host = with_recorded_functions(host, capture_file)
    host = with_merged_copies(host, capture_file)
    device = device_events(trace, host)
    allocations = _allocation_rows(host.plane)
    facts = tracer_facts(trace, host, device, allocations, capture_file, session)
    if capture_file is None:
        occurrences, joined = gather_occurrences(host, device, facts.host_level), None
        if graphs is not None:
            placements = op_rows(host_index, occurrences, facts, None)["placement"]
            gpus = gpu_names(trace) or ([f"{LOCAL}/device:GPU:0"] if facts.gpu_used else [])
            joined = join_graphs(occurrences, graphs, gpus, placements.tolist())
    else:
        host, eager, calls = join_eager(host, capture_file, session)
        occurrences = gather_occurrences(host, device, facts.host_level)
        joined = join_rows(occurrences, capture_file, eager, calls)
        occurrences, joined = with_silent_ops(occurrences, joined, capture_file, facts, session)
    ops = _with_callbacks(op_rows(host_index, occurrences, facts, joined), occurrences)
    transfers = transfer_rows(occurrences, ops, facts)
    ops = count_transfers(ops, transfers)
    stages, work = pipelines(occurrences, ops)
    threads = thread_activity(occurrences, ops) if facts.has_host_plane else None

    def of_host(table: pd.DataFrame) -> pd.DataFrame:
        return table.assign(host=categorical(coded(np.zeros(len(table)), (host_name,))))

    return HostTables(
        ops=of_host(ops),
        kernels=of_host(_kernel_rows(occurrences, ops)),
        transfers=of_host(transfers),
        allocations=of_host(_with_op_ids(allocations, ops)),
        steps=of_host(step_rows(trace, host, device, threads, work.requests)),
        facts=facts,
        threads=threads,
        python_calls=python_calls(host),
        joined=joined,
        stages=of_host(stages) if len(stages) else stages,
        pipelines=work,
    )


def _with_callbacks(ops: pd.DataFrame, occurrences: OpOccurrences) -> pd.DataFrame:
    """Add the lines of the Python functions that compiled ops call."""
    host, row_of = occurrences.host, occurrences.of_occurrence
    types = ops["type"].astype(str).tolist()
    rows = np.unique(row_of[host.kind == Kind.COMPILED_OP]).tolist()
    found = {}
    for row in (row for row in rows if CALLBACKS.fullmatch(types[row])):
        is_callback = flags_at(host.event[row_of == row], len(host.plane))
        found[row] = called_python(host.plane, is_callback, host.order)
    for row, place in found.items():
        if place is not None:
            ops.loc[ops.index[row], ["source_file", "source_line"]] = place
    return ops


def _kernel_rows(occurrences: OpOccurrences, ops: pd.DataFrame) -> pd.DataFrame:
    device = occurrences.device
    rows = np.flatnonzero(~device.direction.present)
    row_of = occurrences.of_device_event[rows]
    labels = (ops["name"].astype(object) + ":" + ops["type"].astype(object)).tolist()
    return pd.DataFrame(
        {
            "device": categorical(device.device.take(rows)),
            "stream": categorical(device.stream.take(rows)),
            "name": categorical(device.name.take(rows)),
            "op_id": categorical(coded(row_of, ops["op_id"].tolist())),
            "op": categorical(coded(row_of, labels)),
            "start_ps": device.start_ps[rows],
            "duration_ps": device.duration_ps[rows],
            "correlation_id": device.correlation_id[rows],
        }
    )


def _allocation_rows(plane: Plane) -> pd.DataFrame:
    """Return `MemoryAllocation` and `MemoryDeallocation` events (bfc_allocator.cc), by time."""
    made = plane.named("MemoryAllocation")
    event = np.concatenate([made, plane.named("MemoryDeallocation")])
    order = np.argsort(plane.start_ps[event], kind="stable")
    event = event[order]
    # TPU allocators have no name, only a device number.
    by_number = mapped(plane.strings("index_on_host", event), lambda number: f"device {number}")
    columns: dict[str, object] = {
        "start_ps": plane.start_ps[event],
        "is_allocation": (np.arange(len(event)) < len(made))[order],
        "allocator": categorical(filled(plane.strings("allocator_name", event), by_number)),
    }
    for stat in (name for name, dtype in ALLOCATIONS.columns.items() if dtype == "Int64"):
        column = plane.integers(stat, event)
        columns[stat] = pd.arrays.IntegerArray(column.values, ~column.present)
    share = plane.floats("fragmentation", event)
    # If no memory is free, it is 0 / 0.
    columns["fragmentation"] = pd.arrays.FloatingArray(share, ~np.isfinite(share))
    for name, stat in (("op_name", "tf_op"), ("region_type", "region_type"), ("shape", "shape")):
        texts = mapped(plane.strings(stat, event), lambda t: None if t in _NOTHING else t)
        columns[name] = categorical(texts)
    columns["data_type"] = categorical(mapped(plane.strings("data_type", event), _type))
    return pd.DataFrame(columns)


def _type(text: str) -> str | None:
    """Return a type's name, such as `float`, or None for DT_INVALID (types.proto)."""
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII):
        return text
    return type_name(int(text)) if int(text) else None


def _with_op_ids(allocations: pd.DataFrame, ops: pd.DataFrame) -> pd.DataFrame:
    """Add op ids to allocations, which record only op names, if the name is unique."""
    named = ops[~ops["is_eager"]]
    single = named[~named["name"].duplicated(keep=False)]
    ids = dict(zip(single["name"], single["op_id"], strict=True))
    names = allocations["op_name"].cat
    op_names = coded(names.codes.to_numpy(), names.categories.tolist())
    return allocations.assign(op_id=categorical(mapped(op_names, ids.get)))


def event_rows(host_name: str, trace: Trace) -> pd.DataFrame:
    """Return a row for each event of all planes, including derived lines."""
    parts = [
        pd.DataFrame(
            {
                "host": host_name,
                "plane": plane.name,
                "line": coded(plane.line_of, plane.lines.name).to_list(),
                "line_id": plane.lines.id[plane.line_of],
                "name": coded(plane.name_of, plane.names).to_list(),
                "start_ps": plane.start_ps,
                "duration_ps": plane.duration_ps,
            }
        )
        for plane in trace.planes
    ]
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    return table.astype({c: "category" for c in ("host", "plane", "line", "name") if c in table})


def holds_other_ops(capture_file: CaptureFile | None, tables: HostTables) -> bool:
    """Return whether a capture file has ops but lacks most of the trace's ops."""
    if capture_file is None or tables.joined is None:
        return False
    ops = tables.ops
    is_compute = ((ops["role"] == Role.COMPUTE) & ops["no_event"].isna()).to_numpy()
    found = mask(record is not None for record in tables.joined.records)[is_compute]
    has_ops = bool(capture_file.functions or capture_file.sequences)
    return has_ops and len(found) >= _FEWEST and bool(found.mean() < _LEAST_SHARE)
