"""The op table: a row for each op of each host, with what it took and where it ran."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from traceanalyzer.tables.nesting import sum_by
from traceanalyzer.tables.placements import decide
from traceanalyzer.tables.text_columns import categorical, constant
from traceanalyzer.tables.vocabulary import Role, role_of_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.tables.device_events import DeviceEvents
    from traceanalyzer.tables.host_ops import HostOps
    from traceanalyzer.tables.sightings import Sightings
    from traceanalyzer.tables.tracer import TracerFacts

__all__ = ["op_rows"]


def op_rows(  # noqa: PLR0913, PLR0917 - the parts of one host, joined here and nowhere else
    host_name: str,
    host_index: int,
    sightings: Sightings,
    host: HostOps | None,
    device: DeviceEvents,
    facts: TracerFacts,
    allocations: pd.DataFrame,
) -> pd.DataFrame:
    """Build one host's rows of the op table, copies not yet counted in.

    Args:
        host_name: Name of the host.
        host_index: Its place among the hosts of the run; part of the key, since names of hosts
            change from one recording to the next.
        sightings: Rows and what belongs to them.
        host: Op occurrences on the host's threads, or None without a host plane.
        device: Events of its devices.
        facts: What its tracers recorded.
        allocations: Its allocations.
    """
    rows = sightings.rows
    n = len(rows)
    seen = _HostTimes.of(sightings, host, n)
    role = np.array([role_of_type(t) for t in rows["type"]], dtype=object)
    in_pipeline = seen.in_pipeline | (role == Role.INPUT_PIPELINE)
    role[in_pipeline & (role == Role.COMPUTE)] = Role.INPUT_PIPELINE
    placements = decide(sightings, host, device, facts, allocations, seen.in_pipeline)
    kernel_rows = sightings.of_device_event
    known = kernel_rows >= 0
    input_types = rows["input_types"]
    return pd.DataFrame(
        {
            "op_id": _op_ids(rows, host_index),
            "host": categorical(constant(host_name, n)),
            "function": rows["function"],
            "name": rows["name"],
            "type": rows["type"],
            "device": pd.Series([p.device for p in placements], dtype=object),
            "signature": input_types,
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
            "output_types": _unknown(n),
            "requested_device": _unknown(n),
            "source_file": _unknown(n),
            "source_line": pd.array([pd.NA] * n, dtype="Int64"),
        }
    )


@dataclass(frozen=True, eq=False)
class _HostTimes:
    """What each row took on host threads."""

    occurrences: NDArray[np.int64]
    self_ps: NDArray[np.int64]
    total_ps: NDArray[np.int64]
    in_pipeline: NDArray[np.bool_]

    @classmethod
    def of(cls, sightings: Sightings, host: HostOps | None, n: int) -> _HostTimes:
        zeros = np.zeros(n, np.int64)
        if host is None:
            return cls(zeros, zeros, zeros, np.zeros(n, np.bool_))
        row_of = sightings.of_occurrence
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


def _op_ids(rows: pd.DataFrame, host_index: int) -> pd.Series:
    """Return a key for each row that is the same when the same program is recorded again.

    The device is left out of it, since a trace tells it one time and not the next; rows that
    nothing else tells apart are numbered in order of device.
    """
    parts = rows[["function", "name", "type", "input_types"]].fillna("").copy()
    parts["is_eager"] = rows["is_eager"].astype(str)
    order = rows["device"].fillna("").argsort(kind="stable")
    number = parts.iloc[order].groupby(list(parts.columns), sort=False).cumcount().sort_index()
    texts = [
        "\0".join((str(host_index), *values, str(k)))
        for values, k in zip(parts.itertuples(index=False), number, strict=True)
    ]
    return pd.Series(
        [blake2b(t.encode(errors="surrogatepass"), digest_size=6).hexdigest() for t in texts],
        dtype=object,
    )


def _unknown(n: int) -> pd.Series:
    return pd.Series([None] * n, dtype=object)
