"""Builds the op table: a row for each op of a host, with its durations and where it ran."""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import PureWindowsPath

import numpy as np
import pandas as pd

from traceanalyzer.native.events import sum_by
from traceanalyzer.tables.arrays import Ints, coded, flags_at
from traceanalyzer.tables.device_events import DeviceEvents
from traceanalyzer.tables.functions import CONSTANTS
from traceanalyzer.tables.graph_nodes import OpRecord
from traceanalyzer.tables.host_ops import UNKNOWN_TYPE
from traceanalyzer.tables.joined import Joined
from traceanalyzer.tables.occurrences import OpOccurrences
from traceanalyzer.tables.placements import decide
from traceanalyzer.tables.recording import TracerFacts
from traceanalyzer.tables.silent_ops import NO_WORK
from traceanalyzer.tables.vocabulary import OPTIONALS, Role, role_of_type


def op_rows(
    host_index: int,
    occurrences: OpOccurrences,
    facts: TracerFacts,
    joined: Joined | None,
) -> pd.DataFrame:
    """Build one host's rows of the op table, except for the counts of transfers.

    `host_index` is part of op ids, since host names change between recordings.
    """
    rows, host, device = occurrences.rows, occurrences.host, occurrences.device
    n = len(rows)
    row_of, kernel_row = occurrences.of_occurrence, occurrences.of_device_event
    seen_in_pipeline = flags_at(row_of[host.in_pipeline], n)
    records: Sequence[OpRecord | None] = [None] * n if joined is None else joined.records
    role = np.array([role_of_type(t) for t in rows["type"]], dtype=object)
    if joined is not None and joined.has_own_optionals:
        role[rows["type"].isin(OPTIONALS).to_numpy()] = Role.COMPUTE
    in_pipeline = seen_in_pipeline | (role == Role.INPUT_PIPELINE)
    role[in_pipeline & (role == Role.COMPUTE)] = Role.INPUT_PIPELINE
    # Whatever its type: it affects no placement of the program's ops and sends to no device.
    role[(rows["function"] == CONSTANTS).to_numpy()] = Role.RUNTIME
    no_event = _texts((record.no_event or None) if record else None for record in records)
    is_idle = no_event.notna() & rows["type"].isin(NO_WORK)
    role[is_idle.to_numpy() & (role == Role.COMPUTE)] = Role.NO_WORK
    placements = decide(occurrences, facts, seen_in_pipeline, records)
    counts = host.plane.occurrences
    number = sum_by(row_of, np.ones_like(row_of) if counts is None else counts[host.event], n)
    input_types = _texts(
        _complete(seen, record.input_types if record else None)
        for seen, record in zip(rows["input_types"], records, strict=True)
    )
    frames = [record.frame if record else None for record in records]
    return pd.DataFrame(
        {
            "op_id": _op_ids(rows, host_index, records),
            "function": rows["function"],
            "name": rows["name"],
            "type": rows["type"],
            "device": _texts(p.device for p in placements),
            "signature": _texts(map(_signature, input_types, records)),
            "role": role,
            "placement": _texts(p.placement for p in placements),
            "placement_certainty": _texts(p.certainty for p in placements),
            "placement_source": _texts(p.source for p in placements),
            "is_eager": rows["is_eager"],
            "in_input_pipeline": in_pipeline,
            "no_event": no_event,
            "occurrences": np.where(number > 0, number, _launches(kernel_row, device, n)),
            "host_self_ps": sum_by(row_of, host.self_ps, n),
            "host_total_ps": sum_by(row_of, host.plane.duration_ps[host.event], n),
            "kernel_ps": sum_by(kernel_row, device.duration_ps, n),
            "kernels": np.bincount(kernel_row[kernel_row >= 0], minlength=n),
            "exposed_ps": pd.array([pd.NA] * n, dtype="Int64"),
            "input_types": input_types,
            "input_shapes": _input_shapes(occurrences, records),
            "output_types": _texts(r.output_types if r else None for r in records),
            "requested_device": _texts(r.requested_device if r else None for r in records),
            "source_file": _texts(frame.file if frame else None for frame in frames),
            "source_line": pd.array([f.line if f else pd.NA for f in frames], dtype="Int64"),
        }
    )


def _texts(values: Iterable[str | None]) -> pd.Series:
    return pd.Series(list(values), dtype=object)


def _input_shapes(occurrences: OpOccurrences, records: Sequence[OpRecord | None]) -> pd.Series:
    """Return the shapes of each op's inputs, if they were the same in all of its runs."""
    shapes, row_of = occurrences.host.input_shapes, occurrences.of_occurrence
    lowest = np.full(len(records), len(shapes.values))
    highest = np.full(len(records), -1)
    seen, codes = row_of[shapes.present], shapes.codes[shapes.present]
    np.minimum.at(lowest, seen, codes)
    np.maximum.at(highest, seen, codes)
    traced = coded(np.where(lowest == highest, highest, -1), shapes.values).to_list()
    return _texts(
        record.input_shapes if record and record.signatures else shape
        for shape, record in zip(traced, records, strict=True)
    )


def _complete(seen: str | None, recorded: str | None) -> str | None:
    """Add types that the trace omits, such as those of resources and references.

    If the trace and the record disagree, return the types in the trace.
    """
    if seen is None or recorded is None:
        return seen if recorded is None else recorded
    places = seen.split(";"), recorded.split(";") if recorded else []
    agree = len(places[0]) == len(places[1]) and all(
        s in {UNKNOWN_TYPE, t} for s, t in zip(*places, strict=True)
    )
    return recorded if agree else seen


def _signature(input_types: str | None, record: OpRecord | None) -> str | None:
    if record is None or not record.signatures:
        return input_types
    frame = record.frame
    where = f"{_file_name(frame.file)}:{frame.line}" if frame else ""
    memory = "in host memory" if record.is_on_host else ""
    types = f"{record.input_types} -> {record.output_types}"
    return ", ".join(filter(None, (types, record.requested_device, memory, where)))


def _launches(kernel_row: Ints, device: DeviceEvents, n: int) -> Ints:
    """Estimate how often each op ran on a device by counting its most frequent kernel."""
    known = pd.DataFrame({"row": kernel_row, "name": device.name.codes})[kernel_row >= 0]
    most = known.groupby(["row", "name"]).size().groupby(level="row").max()
    return most.reindex(np.arange(n), fill_value=0).to_numpy(np.int64).astype(np.int64)


def _op_ids(rows: pd.DataFrame, host_index: int, records: Sequence[OpRecord | None]) -> pd.Series:
    """Return a key for each row that stays the same when the program is recorded again.

    A key omits the device, which not every trace shows, and the line, which moves with every edit
    above it. Rows with otherwise equal keys are numbered by line and device.
    """
    parts = rows[["function", "name", "type", "input_types"]].fillna("").copy()
    parts["is_eager"] = rows["is_eager"].astype(str)
    parts["request"] = [_request(record) for record in records]
    eager = [record.frame if record and record.signatures else None for record in records]
    order = pd.DataFrame(
        {"line": [f.line if f else 0 for f in eager], "device": rows["device"].fillna("")}
    ).sort_values(["line", "device"], kind="stable")
    number = parts.loc[order.index].groupby(list(parts.columns), sort=False).cumcount().sort_index()
    texts = [
        "\0".join((str(host_index), *values, str(k))) + request
        for (*values, request), k in zip(parts.itertuples(index=False), number, strict=True)
    ]
    return _texts(
        blake2b(t.encode(errors="surrogatepass"), digest_size=6).hexdigest() for t in texts
    )


def _request(record: OpRecord | None) -> str:
    """Return the parts of an eager op's key that come from its record, or "" for a graph op."""
    if record is None or not record.signatures:
        return ""
    frame = record.frame
    place = (_file_name(frame.file), frame.code) if frame else ("", "")
    return "\0".join(("", record.output_types or "", record.requested_device or "", *place))


def _file_name(path: str) -> str:
    """Return the last part of a Windows or POSIX path."""
    return PureWindowsPath(path).name
