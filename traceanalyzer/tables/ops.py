"""The op table: a row for each op of each host, with what it took and where it ran."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from traceanalyzer.native.events import sum_by
from traceanalyzer.tables.host_ops import CONSTANTS, UNTOLD_TYPE
from traceanalyzer.tables.placements import decide
from traceanalyzer.tables.text_columns import categorical, constant
from traceanalyzer.tables.vocabulary import Role, role_of_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from traceanalyzer.tables.device_events import DeviceEvents
    from traceanalyzer.tables.host_ops import HostOps
    from traceanalyzer.tables.joined import Joined, OpRecord
    from traceanalyzer.tables.op_occurrences import OpOccurrences
    from traceanalyzer.tables.tracer import TracerFacts


def op_rows(  # noqa: PLR0913, PLR0917 - the parts of one host, joined here and nowhere else
    host_name: str,
    host_index: int,
    occurrences: OpOccurrences,
    host: HostOps | None,
    device: DeviceEvents,
    facts: TracerFacts,
    allocations: pd.DataFrame,
    joined: Joined | None = None,
) -> pd.DataFrame:
    """Build one host's rows of the op table, copies not yet counted in.

    Args:
        host_name: Name of the host.
        host_index: Its place among the hosts of the run; part of the key, since names of hosts
            change from one recording to the next.
        occurrences: Rows and what belongs to them.
        host: Op occurrences on the host's threads, or None without a host plane.
        device: Events of its devices.
        facts: What its tracers recorded.
        allocations: Its allocations.
        joined: What the capture file tells of the rows, or None without one.
    """
    rows = occurrences.rows
    n = len(rows)
    seen = _HostTimes.of(occurrences, host, n)
    own = frozenset[str]() if joined is None else joined.own_types
    types = rows["type"]
    role = np.array([Role.COMPUTE if t in own else role_of_type(t) for t in types], dtype=object)
    in_pipeline = seen.in_pipeline | (role == Role.INPUT_PIPELINE)
    role[in_pipeline & (role == Role.COMPUTE)] = Role.INPUT_PIPELINE
    # Whatever its type: no op of the program is placed by it, and its sends go to no device.
    role[(rows["function"] == CONSTANTS).to_numpy()] = Role.RUNTIME
    records: Sequence[OpRecord | None] = joined.records if joined is not None else ()
    placements = decide(occurrences, host, device, facts, allocations, seen.in_pipeline, records)
    told = _Told.of(records, n)
    kernel_rows = occurrences.of_device_event
    known = kernel_rows >= 0
    input_types = _input_types(rows["input_types"], records)
    return pd.DataFrame(
        {
            "op_id": _op_ids(rows, host_index, records),
            "host": categorical(constant(host_name, n)),
            "function": rows["function"],
            "name": rows["name"],
            "type": rows["type"],
            "device": pd.Series([p.device for p in placements], dtype=object),
            "signature": _signatures(input_types, records),
            "role": role,
            "placement": pd.Series([p.placement for p in placements], dtype=object),
            "placement_certainty": pd.Series([p.certainty for p in placements], dtype=object),
            "placement_source": pd.Series([p.source for p in placements], dtype=object),
            "is_eager": rows["is_eager"],
            "in_input_pipeline": in_pipeline,
            "occurrences": np.where(
                seen.occurrences > 0, seen.occurrences, _launches(kernel_rows, device, n)
            ),
            "host_self_ps": seen.self_ps,
            "host_total_ps": seen.total_ps,
            "kernel_ps": sum_by(kernel_rows, device.duration_ps, n),
            "kernels": np.bincount(kernel_rows[known], minlength=n),
            "h2d_bytes": np.zeros(n, np.int64),
            "d2h_bytes": np.zeros(n, np.int64),
            "copy_ps": np.zeros(n, np.int64),
            "exposed_ps": pd.array([pd.NA] * n, dtype="Int64"),
            "input_types": input_types,
            "output_types": told.output_types,
            "requested_device": told.requested_device,
            "source_file": told.source_file,
            "source_line": told.source_line,
        }
    )


@dataclass(frozen=True, eq=False)
class _Told:
    """What records tell of each row, as columns; null where they do not."""

    output_types: pd.Series
    requested_device: pd.Series
    source_file: pd.Series
    source_line: pd.Series

    @classmethod
    def of(cls, records: Sequence[OpRecord | None], n: int) -> _Told:
        known = records or [None] * n
        frames = [r.frame if r else None for r in known]
        return cls(
            pd.Series([r.output_types if r else None for r in known], dtype=object),
            pd.Series([r.requested_device if r else None for r in known], dtype=object),
            pd.Series([f.file if f else None for f in frames], dtype=object),
            pd.Series([f.line if f else pd.NA for f in frames], dtype="Int64"),
        )


def _input_types(seen: pd.Series, records: Sequence[OpRecord | None]) -> pd.Series:
    """Return the types of each row's inputs as they were seen, with what records add to them."""
    if not records:
        return seen
    told = [record.input_types if record is not None else None for record in records]
    return pd.Series([_complete(*pair) for pair in zip(seen, told, strict=True)], dtype=object)


def _complete(seen: str | None, told: str | None) -> str | None:
    """Return types with those filled in that a trace leaves out: of resources and references.

    What was seen stands, whatever a record says.
    """
    if seen is None or told is None:
        return seen if told is None else told
    places = seen.split(";"), told.split(";") if told else []
    agree = len(places[0]) == len(places[1]) and all(
        s in {UNTOLD_TYPE, t} for s, t in zip(*places, strict=True)
    )
    return told if agree else seen


def _signatures(input_types: pd.Series, records: Sequence[OpRecord | None]) -> pd.Series:
    """Write down what else tells rows apart: of eager ops the types, the scope and the line."""
    if not records:
        return input_types
    texts = [
        _signature(record) if record is not None and record.signatures else types
        for types, record in zip(input_types, records, strict=True)
    ]
    return pd.Series(texts, dtype=object)


def _signature(record: OpRecord) -> str:
    frame = record.frame
    where = f"{_name(frame.file)}:{frame.line}" if frame else ""
    memory = "in host memory" if record.is_on_host else ""
    types = f"{record.input_types} -> {record.output_types}"
    parts = (types, record.requested_device, memory, where)
    return ", ".join(part for part in parts if part)


@dataclass(frozen=True, eq=False)
class _HostTimes:
    """What each row took on host threads."""

    occurrences: NDArray[np.int64]
    self_ps: NDArray[np.int64]
    total_ps: NDArray[np.int64]
    in_pipeline: NDArray[np.bool_]

    @classmethod
    def of(cls, occurrences: OpOccurrences, host: HostOps | None, n: int) -> _HostTimes:
        zeros = np.zeros(n, np.int64)
        if host is None:
            return cls(zeros, zeros, zeros, np.zeros(n, np.bool_))
        row_of = occurrences.of_occurrence
        plane = host.plane
        counts = (
            np.ones(len(host.event), np.int64)
            if plane.occurrences is None
            else plane.occurrences[host.event]
        )
        in_pipeline = np.zeros(n, np.bool_)
        in_pipeline[row_of[host.in_pipeline]] = True
        return cls(
            sum_by(row_of, counts, n),
            sum_by(row_of, host.self_ps, n),
            sum_by(row_of, plane.duration_ps[host.event], n),
            in_pipeline,
        )


def _launches(kernel_rows: NDArray[np.int64], device: DeviceEvents, n: int) -> NDArray[np.int64]:
    """Return how often each op's most frequent kernel ran: the best guess where no host saw it."""
    out = np.zeros(n, np.int64)
    known = np.flatnonzero(kernel_rows >= 0)
    if len(known):
        names = len(device.name.values) + 1
        pairs = kernel_rows[known] * names + device.name.codes[known]
        codes, distinct = pd.factorize(pairs)
        np.maximum.at(out, np.asarray(distinct) // names, np.bincount(codes))
    return out


def _op_ids(rows: pd.DataFrame, host_index: int, records: Sequence[OpRecord | None]) -> pd.Series:
    """Return a key for each row that is the same when the same program is recorded again.

    The device is left out of it, since a trace tells it one time and not the next; rows that
    nothing else tells apart are numbered in order of device. So is the line, which an edit above it
    moves: of eager ops the file's name, the Python function and the scope count, and those that
    these do not tell apart are numbered in order of line.
    """
    parts = rows[["function", "name", "type", "input_types"]].fillna("").copy()
    parts["is_eager"] = rows["is_eager"].astype(str)
    parts["asked"] = [_asked(record) for record in records] if records else ""
    order = rows["device"].fillna("").argsort(kind="stable")
    if records:
        eager = [r.frame if r is not None and r.signatures else None for r in records]
        lines = np.array([frame.line if frame else 0 for frame in eager], np.int64)
        order = order.iloc[np.argsort(lines[order.to_numpy()], kind="stable")]
    number = parts.iloc[order].groupby(list(parts.columns), sort=False).cumcount().sort_index()
    texts = [
        "\0".join((str(host_index), *values, str(k))) + asked
        for (*values, asked), k in zip(parts.itertuples(index=False), number, strict=True)
    ]
    return pd.Series(
        [blake2b(t.encode(errors="surrogatepass"), digest_size=6).hexdigest() for t in texts],
        dtype=object,
    )


def _asked(record: OpRecord | None) -> str:
    """Return what tells an eager op apart, but for its line; nothing for one of a graph."""
    if record is None or not record.signatures:
        return ""
    frame = record.frame
    place = (_name(frame.file), frame.code) if frame else ("", "")
    return "\0".join(("", record.output_types or "", record.requested_device or "", *place))


def _name(path: str) -> str:
    """Return the last part of a path of whatever system."""
    return path.replace("\\", "/").rpartition("/")[2]
