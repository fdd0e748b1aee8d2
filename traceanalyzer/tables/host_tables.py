"""All tables of one host, from its trace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from traceanalyzer.tables.allocations import allocation_events
from traceanalyzer.tables.dataset_functions import with_functions_of_steps
from traceanalyzer.tables.device_events import device_events
from traceanalyzer.tables.function_making import NOTHING_MADE, FunctionMaking, function_making
from traceanalyzer.tables.host_ops import host_ops
from traceanalyzer.tables.joined import join_eager, join_rows
from traceanalyzer.tables.op_occurrences import gather_occurrences
from traceanalyzer.tables.ops import op_rows
from traceanalyzer.tables.schema import ALLOCATIONS
from traceanalyzer.tables.session_graphs import with_session_graphs
from traceanalyzer.tables.stages import NO_PIPELINES, no_stages, pipelines
from traceanalyzer.tables.steps import step_rows
from traceanalyzer.tables.text_columns import categorical, constant
from traceanalyzer.tables.thread_activity import thread_activity
from traceanalyzer.tables.tracer import TracerFacts, tracer_facts
from traceanalyzer.tables.transfers import count_transfers, transfer_rows
from traceanalyzer.tables.vocabulary import HOST_PLANE
from traceanalyzer.trace.columns import Strings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traceanalyzer.capture_file.document import CaptureFile
    from traceanalyzer.tables.device_events import DeviceEvents
    from traceanalyzer.tables.joined import EagerOps, Joined
    from traceanalyzer.tables.op_occurrences import OpOccurrences
    from traceanalyzer.tables.stages import Pipelines
    from traceanalyzer.tables.thread_activity import ThreadActivity
    from traceanalyzer.trace.columns import Plane, Trace


@dataclass(frozen=True, eq=False, kw_only=True)
class HostTables:
    """One host's rows of each table, with the columns of the schemas but not yet their dtypes.

    Attributes:
        ops: Its ops.
        kernels: Its kernels.
        transfers: Its transfers.
        allocations: Its allocations.
        steps: Its steps.
        facts: What its tracers recorded.
        threads: What its threads did when, or None without a host plane.
        joined: What its capture file tells of the ops, or None without one.
        stages: The stages of its input pipelines.
        pipelines: When these were asked, and when at work.
        line_begins: When the clock of each line begins, by plane and line; int picoseconds.
        making: When functions were traced and made ready.
    """

    ops: pd.DataFrame
    kernels: pd.DataFrame
    transfers: pd.DataFrame
    allocations: pd.DataFrame
    steps: pd.DataFrame
    facts: TracerFacts
    threads: ThreadActivity | None = None
    joined: Joined | None = None
    stages: pd.DataFrame = field(default_factory=no_stages)
    pipelines: Pipelines = NO_PIPELINES
    line_begins: Mapping[tuple[str, str], int] = field(default_factory=dict)
    making: FunctionMaking = NOTHING_MADE


def host_tables(
    host_name: str,
    host_index: int,
    trace: Trace,
    capture_file: CaptureFile | None = None,
    session: int | None = None,
) -> HostTables:
    """Build the tables of one host.

    Args:
        host_name: Name of the host.
        host_index: Its place among the hosts of the run.
        trace: Its trace.
        capture_file: What a capture recorded beside it, or None.
        session: Which of the capture file's sessions wrote the trace, or None where not known.
    """
    plane = _host_plane(trace)
    host = host_ops(plane) if plane is not None else None
    if host is not None and capture_file is not None:
        host = with_session_graphs(with_functions_of_steps(host, capture_file), capture_file)
    device = device_events(trace, host)
    allocations = allocation_events(plane) if plane is not None else _no_allocations()
    facts = tracer_facts(trace, host, device, allocations, capture_file, session)
    eager: EagerOps | None = None
    if host is not None and capture_file is not None:
        host, eager = join_eager(host, capture_file, session)
    record = None if eager is None else eager.record
    occurrences = gather_occurrences(host, device, facts.host_level, record)
    joined = (
        None if capture_file is None else join_rows(occurrences.rows, host, capture_file, eager)
    )
    ops = op_rows(host_name, host_index, occurrences, host, device, facts, allocations, joined)
    transfers = transfer_rows(host_name, ops, occurrences, host, device, facts)
    ops = count_transfers(ops, transfers)
    stages, work = pipelines(host_name, host, occurrences.of_occurrence, ops)
    return HostTables(
        ops=ops,
        kernels=_kernel_rows(host_name, ops, occurrences, device),
        transfers=transfers,
        allocations=_with_op_ids(host_name, allocations, ops),
        steps=step_rows(host_name, trace, host, device),
        facts=facts,
        threads=None if host is None else thread_activity(host, device, occurrences, ops),
        joined=joined,
        stages=stages,
        pipelines=work,
        line_begins=_line_begins(trace),
        making=NOTHING_MADE if plane is None else function_making(plane),
    )


def _line_begins(trace: Trace) -> dict[tuple[str, str], int]:
    """Return when the clock of each line begins; not of those that share a name and differ."""
    found: dict[tuple[str, str], int] = {}
    unclear = set()
    for plane in trace.planes:
        for name, at_ns in zip(plane.lines.name, plane.lines.timestamp_ns.tolist(), strict=True):
            key = (plane.name, name)
            if found.setdefault(key, 1000 * at_ns) != 1000 * at_ns:
                unclear.add(key)
    return {key: at_ps for key, at_ps in found.items() if key not in unclear}


def _host_plane(trace: Trace) -> Plane | None:
    """Return the host plane, if anything was recorded on it; the fullest of several."""
    planes = [p for p in trace.planes if p.name == HOST_PLANE and len(p)]
    return max(planes, key=len, default=None)


def _no_allocations() -> pd.DataFrame:
    columns = [c for c in ALLOCATIONS.columns if c not in {"host", "op_id"}]
    empty = pd.DataFrame({c: pd.Series([], dtype=object) for c in columns})
    return empty.astype({"is_allocation": bool, "allocator": "category"})


def _kernel_rows(
    host_name: str, ops: pd.DataFrame, occurrences: OpOccurrences, device: DeviceEvents
) -> pd.DataFrame:
    rows = np.flatnonzero(~device.direction.present)
    row_of = occurrences.of_device_event[rows].astype(np.int32)
    labels = (ops["name"].astype(object) + ":" + ops["type"].astype(object)).tolist()
    return pd.DataFrame(
        {
            "host": categorical(constant(host_name, len(rows))),
            "device": categorical(device.device.take(rows)),
            "stream": categorical(device.stream.take(rows)),
            "name": categorical(device.name.take(rows)),
            "op_id": categorical(Strings(row_of, tuple(ops["op_id"]))),
            "op": categorical(Strings(row_of, tuple(labels))),
            "start_ps": device.start_ps[rows],
            "duration_ps": device.duration_ps[rows],
            "correlation_id": device.correlation_id[rows],
        }
    )


def _with_op_ids(host_name: str, allocations: pd.DataFrame, ops: pd.DataFrame) -> pd.DataFrame:
    """Link allocations, which carry an op's name alone, to the one row that bears it."""
    named = ops[~ops["is_eager"]]
    single = named[~named["name"].duplicated(keep=False)]
    ids = dict(zip(single["name"], single["op_id"], strict=True))
    names = allocations["op_name"].astype("category")
    found = [ids.get(name) for name in names.cat.categories]
    codes = names.cat.codes.to_numpy()
    known = tuple(text or "" for text in found)
    usable = np.array([text is not None for text in found] + [False])
    op_id = Strings(np.where(usable[codes], codes, -1).astype(np.int32), known)
    return allocations.assign(host=host_name, op_id=categorical(op_id))
