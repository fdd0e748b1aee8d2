"""The cost of CPU ops: how long devices waited for them, and how much time a fix can save.

A fix saves at most the time in which a device of the host waited for the ops or, without devices,
the program did. If the trace leaves open which of several ops that was, the time counts for each.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traceanalyzer.model import Cost
from traceanalyzer.native.events import sum_by
from traceanalyzer.run import Host, Run
from traceanalyzer.tables.steps import regular_steps
from traceanalyzer.tables.thread_activity import ThreadState
from traceanalyzer.timeline.intervals import Intervals, common, covered, inside_ps, union
from traceanalyzer.timeline.walk import Parts
from traceanalyzer.units import PS_PER_US, us

_EVER: Final = Intervals(np.array([-(2**61)]), np.array([2**61]))


class Costs:
    """The costs of a run's ops per regular step."""

    def __init__(self, run: Run) -> None:
        steps = [(host, regular_steps(host.tables.steps)) for host in run.hosts]
        self._hosts = [_HostWaits(host, of_host) for host, of_host in steps if len(of_host)]
        self._with_devices = [each for each in self._hosts if each.devices]
        self._run = run

    @cached_property
    def host_by_op_ps(self) -> pd.Series[float] | None:
        """The time per step of each op on host threads, by op id; None if there are no steps."""
        found = []
        for each in self._hosts:
            threads = each.host.tables.threads
            if threads is not None:
                known = threads.row >= 0
                start, end = threads.start_ps[known], threads.end_ps[known]
                found.append(each.by_op_ps(threads.row[known], start, end))
        return pd.concat(found) if found else None

    @cached_property
    def exposed_by_op_ps(self) -> pd.Series[float] | None:
        """Each op's mean exposed time per step over all devices, by op id; None without devices."""
        found = [
            each.by_op_ps(*(waits[name].to_numpy() for name in ("row", "start_ps", "end_ps")))
            for each in self._with_devices
            for waits in each.devices
        ]
        return pd.concat(found).groupby(level=0).sum() / len(found) if found else None

    def host_ps(self, op_ids: Iterable[str]) -> float | None:
        """Return the time of ops on host threads per step, summed over all hosts."""
        return _total(self.host_by_op_ps, op_ids)

    def exposed_ps(self, op_ids: Iterable[str]) -> float | None:
        """Return the time per step that devices waited for ops, averaged over devices."""
        return _total(self.exposed_by_op_ps, op_ids)

    def step_ps(self) -> float | None:
        """Return the mean duration of the steps in which `exposed_ps` was measured."""
        took = [e.within.total_ps / e.steps for e in self._with_devices for _ in e.devices]
        return sum(took) / len(took) if took else None

    def gain_ps(self, op_ids: Iterable[str]) -> float | None:
        """Return the most time per step that moving ops to the device can save.

        Hosts and devices run their steps together, so the one with the largest gain decides. None
        without devices or steps.
        """
        ids = set(op_ids)
        return max((each.waited_ps(ids) for each in self._with_devices), default=None)

    def program_ps(self, op_ids: Iterable[str]) -> float | None:
        """Return the most time per step that the program can have waited for ops.

        None if a device ran kernels, if there are no steps, or if the program's thread is unknown.
        """
        ids = set(op_ids)
        hosts = [e for e in self._hosts if e.host.timeline.program is not None]
        return max((each.waited_ps(ids) for each in hosts), default=None)

    def whole_run_ps(self, op_ids: Iterable[str]) -> float | None:
        """Return the most time of the whole recording in which ops can have been waited for."""
        ids = set(op_ids)
        hosts = [e for e in self._whole if e.waits]
        return max((each.waited_ps(ids) for each in hosts), default=None)

    @cached_property
    def _whole(self) -> list[_HostWaits]:
        return [_HostWaits(host, None) for host in self._run.hosts]


def _total(of_op: pd.Series[float] | None, op_ids: Iterable[str]) -> float | None:
    return None if of_op is None else float(of_op.reindex(list(op_ids)).sum())


class _HostWaits:
    """The regular steps of a host, or its whole recording, and what its devices waited for.

    Without devices, the program's waits take their place.
    """

    def __init__(self, host: Host, steps: pd.DataFrame | None) -> None:
        devices = [device.parts for device in host.timeline.devices]
        program = host.timeline.program
        self.host, self.steps = host, 1 if steps is None else len(steps)
        self.within = _EVER if steps is None else covered(steps)
        self.devices = [_exposed(parts) for parts in devices]
        self.waits = [_Waits(p) for p in (devices if program is None else [program])]

    def by_op_ps(
        self, rows: NDArray[np.int32], start_ps: NDArray[np.int64], end_ps: NDArray[np.int64]
    ) -> pd.Series[float]:
        """Sum the times of ops per step, by op id; `rows` are their rows in the op table."""
        ids, inside = self.host.tables.ops["op_id"], inside_ps(self.within, start_ps, end_ps)
        return pd.Series(sum_by(rows.astype(np.int64), inside, len(ids)), ids) / self.steps

    def waited_ps(self, op_ids: Iterable[str]) -> float:
        """Return the most time per step in which one of the host's devices waited for ops."""
        rows = np.flatnonzero(self.host.tables.ops["op_id"].isin(op_ids))
        ran = self._ran(rows)
        waits = (each.on(rows, ran) for each in self.waits)
        return max(common(times, self.within).total_ps for times in waits) / self.steps

    def _ran(self, rows: NDArray[np.int64]) -> Intervals:
        """Return when ops of these rows computed on the host."""
        row, start_ps, duration_ps = self._host_ops
        first, end = (np.searchsorted(row, rows, side) for side in ("left", "right"))
        own = [np.arange(a, b) for a, b in zip(first.tolist(), end.tolist(), strict=True)]
        chosen = np.concatenate([np.empty(0, np.int64), *own])
        return union(start_ps[chosen], duration_ps[chosen])

    @cached_property
    def _host_ops(self) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
        """When ops computed on the host: rows of the op table, ascending, starts, durations."""
        threads = self.host.tables.threads
        if threads is None:
            return np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.int64)
        ran = np.flatnonzero((threads.state == ThreadState.HOST_OP) & (threads.row >= 0))
        ran = ran[np.argsort(threads.row[ran], kind="stable")]
        start_ps = threads.start_ps[ran]
        return threads.row[ran], start_ps, threads.end_ps[ran] - start_ps


class _Waits:
    """What one device or the program waited for."""

    def __init__(self, parts: Parts) -> None:
        self._exposed = _exposed(parts)
        self._for_host_ops = parts.times(parts.may_be_host_op)

    def on(self, rows: NDArray[np.int64], ran: Intervals) -> Intervals:
        """Return the waits that can be for the ops of these rows, which ran at these times."""
        own = self._exposed[self._exposed["row"].isin(rows)]
        own_ps = own["end_ps"] - own["start_ps"]
        undecided = common(ran, self._for_host_ops)
        return union(
            np.concatenate([own["start_ps"].to_numpy(np.int64), undecided.start_ps]),
            np.concatenate([own_ps.to_numpy(np.int64), undecided.end_ps - undecided.start_ps]),
        )


def _exposed(parts: Parts) -> pd.DataFrame:
    every = {"row": parts.row, "start_ps": parts.start_ps, "end_ps": parts.end_ps}
    return pd.DataFrame(every)[parts.is_exposed]


# --- as a record -----------------------------------------------------------------------------


def joint_cost(rows: pd.DataFrame, copies: pd.DataFrame, costs: Costs) -> Cost:
    """Return the cost of several ops; a copy between two of them counts once."""
    ids = rows["op_id"]
    touched = copies[copies["producer"].isin(ids) | copies["consumer"].isin(ids)]
    across = touched.loc[touched["direction"].isin(["h2d", "d2h"]), "bytes"]
    return _cost(rows, _known_sum(touched["duration_ps"]), _known_sum(across), costs)


def op_costs(rows: pd.DataFrame, copies: pd.DataFrame, costs: Costs | None) -> list[Cost]:
    """Return the cost of each op."""
    unmeasured = copies_of_unknown_size(copies)
    found = []
    for k, op_id in enumerate(rows["op_id"]):
        row = rows.iloc[k : k + 1]
        known = (int(row["copy_ps"].sum()), int((row["h2d_bytes"] + row["d2h_bytes"]).sum()))
        copy_ps, size = (value or (None if op_id in unmeasured else 0) for value in known)
        found.append(_cost(row, copy_ps, size, costs))
    return found


def _cost(
    rows: pd.DataFrame, copy_ps: int | None, copy_bytes: int | None, costs: Costs | None
) -> Cost:
    ids = rows["op_id"]
    waited_ps = None if costs is None else costs.exposed_ps(ids)
    is_timed = rows.empty or bool(rows["no_event"].isna().any())
    return Cost(
        host_us=int(rows["host_self_ps"].sum()) / PS_PER_US if is_timed else None,
        copy_us=us(copy_ps),
        copy_bytes=copy_bytes,
        exposed_us_per_step=us(waited_ps if is_timed else waited_ps or None),
        host_us_per_step=us(costs.host_ps(ids)) if costs is not None and is_timed else None,
    )


def copies_of_unknown_size(copies: pd.DataFrame) -> frozenset[str]:
    """Return the ops with a host-device transfer of unknown size."""
    unknown = copies[copies["direction"].isin(["h2d", "d2h"]) & copies["bytes"].isna()]
    return frozenset(unknown["producer"].dropna()) | frozenset(unknown["consumer"].dropna())


def _known_sum(column: pd.Series[int]) -> int | None:
    """Sum the known values; None if none are known (which is not 0)."""
    known = column.dropna()
    return None if known.empty and len(column) else int(known.sum())
