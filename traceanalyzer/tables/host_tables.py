"""All tables of one host, from its trace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from traceanalyzer.tables.allocations import allocation_events, with_op_ids
from traceanalyzer.tables.arrays import categorical, constant
from traceanalyzer.tables.device_events import device_events
from traceanalyzer.tables.functions import with_recorded_functions
from traceanalyzer.tables.host_ops import host_ops, host_plane
from traceanalyzer.tables.joined import join_eager, join_rows
from traceanalyzer.tables.op_occurrences import gather_occurrences
from traceanalyzer.tables.ops import op_rows
from traceanalyzer.tables.program_calls import NOTHING_MADE, function_making
from traceanalyzer.tables.stages import NO_PIPELINES, no_stages, pipelines
from traceanalyzer.tables.steps import step_rows
from traceanalyzer.tables.thread_activity import thread_activity
from traceanalyzer.tables.tracer import tracer_facts
from traceanalyzer.tables.transfers import count_transfers, transfer_rows
from traceanalyzer.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traceanalyzer.capture_file.document import CaptureFile
    from traceanalyzer.tables.joined import Joined
    from traceanalyzer.tables.op_occurrences import OpOccurrences
    from traceanalyzer.tables.program_calls import FunctionMaking
    from traceanalyzer.tables.stages import Pipelines
    from traceanalyzer.tables.thread_activity import ThreadActivity
    from traceanalyzer.tables.tracer import TracerFacts
    from traceanalyzer.trace.columns import Trace


@dataclass(frozen=True, eq=False, kw_only=True)
class HostTables:
    """One host's rows of each table, with the columns of the schemas but not yet their dtypes."""

    ops: pd.DataFrame
    kernels: pd.DataFrame
    transfers: pd.DataFrame
    allocations: pd.DataFrame
    steps: pd.DataFrame
    facts: TracerFacts  #: What its tracers recorded
    threads: ThreadActivity | None = None  #: What its threads did when; None without a host plane
    joined: Joined | None = None  #: What its capture file says about the ops
    stages: pd.DataFrame = field(default_factory=no_stages)  #: The stages of its input pipelines
    #: When elements were requested from these, and when they were at work.
    pipelines: Pipelines = NO_PIPELINES
    #: When the clock of each line begins, by plane and line; int picoseconds.
    line_begins: Mapping[tuple[str, str], int] = field(default_factory=dict)
    making: FunctionMaking = NOTHING_MADE  #: When functions were traced and instantiated


def host_tables(
    host_name: str,
    host_index: int,
    trace: Trace,
    capture_file: CaptureFile | None = None,
    session: int | None = None,
) -> HostTables:
    """Build the tables of one host."""
    host = host_ops(host_plane(trace))
    if capture_file is not None:
        host = with_recorded_functions(host, capture_file)
    device = device_events(trace, host)
    allocations = allocation_events(host.plane)
    facts = tracer_facts(trace, host, device, allocations, capture_file, session)
    if capture_file is None:
        occurrences, joined = gather_occurrences(host, device, facts.host_level), None
    else:
        host, eager, calls = join_eager(host, capture_file, session)
        occurrences = gather_occurrences(host, device, facts.host_level)
        joined = join_rows(occurrences, capture_file, eager, calls)
    ops = op_rows(host_index, occurrences, facts, allocations, joined)
    transfers = transfer_rows(occurrences, ops, facts)
    ops = count_transfers(ops, transfers)
    stages, work = pipelines(occurrences, ops)

    def of_host(table: pd.DataFrame) -> pd.DataFrame:
        table["host"] = categorical(constant(host_name, len(table)))
        return table

    return HostTables(
        ops=of_host(ops),
        kernels=of_host(_kernel_rows(occurrences, ops)),
        transfers=of_host(transfers),
        allocations=of_host(with_op_ids(allocations, ops)),
        steps=of_host(step_rows(trace, host, device)),
        facts=facts,
        threads=thread_activity(occurrences, ops) if facts.has_host_plane else None,
        joined=joined,
        stages=of_host(stages) if len(stages) else stages,
        pipelines=work,
        line_begins=_line_begins(trace),
        making=function_making(host.plane, host.order),
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


def _kernel_rows(occurrences: OpOccurrences, ops: pd.DataFrame) -> pd.DataFrame:
    device = occurrences.device
    rows = np.flatnonzero(~device.direction.present)
    row_of = occurrences.of_device_event[rows].astype(np.int32)
    labels = (ops["name"].astype(object) + ":" + ops["type"].astype(object)).tolist()
    return pd.DataFrame(
        {
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


def event_rows(host_name: str, trace: Trace) -> pd.DataFrame:
    """List the events of all planes, derived lines included.

    One row an event: `host`, `plane`, `line`, `line_id`, `name`, `start_ps`, `duration_ps`.
    """
    parts = [
        pd.DataFrame(
            {
                "host": categorical(constant(host_name, len(plane))),
                "plane": categorical(constant(plane.name, len(plane))),
                "line": categorical(Strings(plane.line_of, plane.lines.name)),
                "line_id": plane.lines.id[plane.line_of],
                "name": categorical(Strings(plane.name_of, plane.names)),
                "start_ps": plane.start_ps,
                "duration_ps": plane.duration_ps,
            }
        )
        for plane in trace.planes
    ]
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    texts = [c for c in ("host", "plane", "line", "name") if c in table]
    return table.astype(dict.fromkeys(texts, "category"))
