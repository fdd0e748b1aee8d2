"""The cost of CPU ops: how long devices waited for them, and how much time a fix can save.

A fix saves at most the time in which any device of the host was idle because of the ops.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traceanalyzer.model import Cost
from traceanalyzer.native.events import sum_by
from traceanalyzer.run import Host, Run
from traceanalyzer.tables.steps import regular_steps
from traceanalyzer.timeline.intervals import Intervals, common, inside_ps, union
from traceanalyzer.timeline.walk import Parts
from traceanalyzer.units import PS_PER_US, us


class Costs:
    """The costs of a run's ops per regular step."""

    def __init__(self, run: Run) -> None:
        steps = [(host, regular_steps(host.tables.steps)) for host in run.hosts]
        self._hosts = [(host, of_host) for host, of_host in steps if len(of_host)]

    @cached_property
    def _work(self) -> list[_HostWork]:
        return [_HostWork(host, steps) for host, steps in self._hosts if host.timeline.devices]

    @cached_property
    def _devices(self) -> list[_Device]:
        return [device for work in self._work for device in work.devices]

    @cached_property
    def host_by_op_ps(self) -> pd.Series[float] | None:
        """The time per step of each op on host threads, by op id; None if there are no steps."""
        found = []
        for host, steps in self._hosts:
            threads = host.tables.threads
            if threads is not None:
                known = threads.row >= 0
                start, end = threads.start_ps[known], threads.end_ps[known]
                inside = inside_ps(_times(steps), start, end)
                found.append(_by_op(host, threads.row[known], inside) / len(steps))
        return pd.concat(found) if found else None

    @cached_property
    def exposed_by_op_ps(self) -> pd.Series[float] | None:
        """Each op's mean exposed time per step over all devices, by op id; None without devices."""
        return _mean_by_op([device.exposed_by_op_ps for device in self._devices])

    def host_ps(self, op_ids: Iterable[str]) -> float | None:
        """Return the time of ops on host threads per step, summed over all hosts."""
        return _total(self.host_by_op_ps, op_ids)

    def exposed_ps(self, op_ids: Iterable[str]) -> float | None:
        """Return the time per step that devices waited for ops, averaged over devices."""
        return _total(self.exposed_by_op_ps, op_ids)

    def step_ps(self) -> float | None:
        """Return the mean duration of the steps in which `exposed_ps` was measured."""
        took = [device.work.within.total_ps / device.work.steps for device in self._devices]
        return sum(took) / len(took) if took else None

    def gain_ps(self, op_ids: Iterable[str]) -> float | None:
        """Return the most time per step that moving ops to the device can save.

        Hosts run their steps together, so the host with the largest gain decides. None without
        devices or steps.
        """
        ids = set(op_ids)
        return max((work.waited_ps(ids) for work in self._work), default=None)


def _by_op(host: Host, rows: NDArray[np.int32], ps: NDArray[np.int64]) -> pd.Series[int]:
    """Sum times by op id; `rows` are the ops' rows in the host's op table."""
    ids = host.tables.ops["op_id"]
    return pd.Series(sum_by(rows.astype(np.int64), ps, len(ids)), ids)


def _mean_by_op(found: Sequence[pd.Series[float]]) -> pd.Series[float] | None:
    return pd.concat(found).groupby(level=0).sum() / len(found) if found else None


def _total(of_op: pd.Series[float] | None, op_ids: Iterable[str]) -> float | None:
    return None if of_op is None else float(of_op.reindex(list(op_ids)).sum())


def _times(table: pd.DataFrame) -> Intervals:
    return union(table["start_ps"].to_numpy(np.int64), table["duration_ps"].to_numpy(np.int64))


class _HostWork:
    """The waiting times of a host's devices within its regular steps."""

    def __init__(self, host: Host, steps: pd.DataFrame) -> None:
        self.host, self.steps, self.within = host, len(steps), _times(steps)
        self.devices = [_Device(self, device.parts) for device in host.timeline.devices]

    def waited_ps(self, op_ids: Iterable[str]) -> float:
        """Return the time per step in which any of the host's devices waited for ops."""
        rows = np.flatnonzero(self.host.tables.ops["op_id"].isin(op_ids))
        waits = pd.concat([device.waits[device.waits["row"].isin(rows)] for device in self.devices])
        return common(_times(waits), self.within).total_ps / self.steps


class _Device:
    """The waiting time of one device within the regular steps."""

    def __init__(self, work: _HostWork, parts: Parts) -> None:
        self.work = work
        columns = {"start_ps": parts.start_ps, "duration_ps": parts.duration_ps, "row": parts.row}
        self.waits = pd.DataFrame(columns)[parts.is_exposed]

    @cached_property
    def exposed_by_op_ps(self) -> pd.Series[float]:
        """The time per step that the device waited for each op of its host, by op id."""
        start, took, row = (self.waits[name].to_numpy() for name in self.waits)
        inside = inside_ps(self.work.within, start, start + took)
        return _by_op(self.work.host, row, inside) / self.work.steps


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
