"""The cost of CPU ops: how long devices waited for them, and how much time a fix can save.

A fix saves at most the time in which any device of the host was idle because of the ops. A step
ends when its last device finishes, so the lower bound is the gain of the device that gains least:
its waiting time minus waits whose attribution is not proved, transfers (a neighbor of the op may
need them next), times when other CPU ops also ran (the device might wait for them instead), and
the cost of the ops on the device (one launch each, and a quarter of their host time). Other work in
the step also limits the gain: input, and the kernels of the busiest device.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traceanalyzer.model import Cost
from traceanalyzer.native.events import sum_by
from traceanalyzer.run import Host, Run
from traceanalyzer.tables.steps import regular_steps
from traceanalyzer.tables.thread_activity import ON_DEVICE, ThreadState
from traceanalyzer.timeline.intervals import Intervals, common, inside_ps, union, without
from traceanalyzer.timeline.walk import Parts, Phase
from traceanalyzer.units import PS_PER_US, us

# The assumed time of an op on the device, as a share of its host time: no trace shows it.
_DEVICE_SHARE: Final = 0.25
_LAUNCH_QUANTILE: Final = 0.25  # of times from launch to start: queued kernels take longer


class GainBounds(NamedTuple):
    """Bounds on the time that a fix can save, in picoseconds per step."""

    low_ps: float  #: at least: the gain of the device that gains least
    high_ps: float  #: at most: the time in which some device waited


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

    def gain(self, op_ids: Iterable[str]) -> GainBounds | None:
        """Return how much moving ops to the device can save; None without devices or steps.

        Hosts run their steps together, so the host with the largest gain sets the upper bound, and
        the device with the smallest gain sets the lower bound.
        """
        if not self._devices:
            return None
        ids = set(op_ids)
        least_ps = min(device.least_gain_ps(ids) for device in self._devices)
        return GainBounds(least_ps, max(work.waited_ps(ids) for work in self._work))


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
    """The work of a host, and the waiting times of its devices, within its regular steps."""

    def __init__(self, host: Host, steps: pd.DataFrame) -> None:
        self.host, self.steps, self.within = host, len(steps), _times(steps)
        work, threads = host.timeline.work, host.tables.threads
        #: The time from a kernel's launch to its start; 0 if unknown.
        self.launch_ps = 0
        if work is not None:
            known = (work.launches.thread != ON_DEVICE) & ~work.is_transfer
            took = (work.start_ps - work.launches.start_ps)[known].clip(0)
            self.launch_ps = int(np.quantile(took, _LAUNCH_QUANTILE)) if len(took) else 0
        #: When ops computed, or may have computed, on the host.
        self.computed = pd.DataFrame(columns=["start_ps", "duration_ps", "row"], dtype=np.int64)
        parts = [device.parts for device in host.timeline.devices]
        # Work that does not depend on the program's own thread: the kernels of each device, and the
        # input pipeline on its threads.
        beside = [(p.start_ps, p.duration_ps, p.phase == Phase.COMPUTE) for p in parts]
        if threads is not None:
            start, took = threads.start_ps, threads.end_ps - threads.start_ps
            computed = {"start_ps": start, "duration_ps": took, "row": threads.row}
            states = (ThreadState.HOST_OP, ThreadState.UNPLACED)
            self.computed = pd.DataFrame(computed)[np.isin(threads.state, states)]
            own = np.repeat(threads.is_program, np.diff(threads.begin))
            beside.append((start, took, (threads.state == ThreadState.INPUT) & ~own))
        busy_ps = (
            common(union(start[chosen], took[chosen]), self.within).total_ps
            for start, took, chosen in beside
        )
        self.room_ps = max(0, self.within.total_ps - max(busy_ps))
        self.devices = [_Device(self, each) for each in parts]

    def is_of(self, op_ids: Iterable[str], table: pd.DataFrame) -> pd.Series[bool]:
        return table["row"].isin(np.flatnonzero(self.host.tables.ops["op_id"].isin(op_ids)))

    def waited_ps(self, op_ids: Iterable[str]) -> float:
        """Return the time per step in which any of the host's devices waited for ops."""
        waits = pd.concat([device.waits_for(op_ids) for device in self.devices])
        return common(_times(waits), self.within).total_ps / self.steps


class _Device:
    """The waiting time of one device within the regular steps."""

    def __init__(self, work: _HostWork, parts: Parts) -> None:
        self.work = work
        self._waits = pd.DataFrame(
            {
                "start_ps": parts.start_ps,
                "duration_ps": parts.duration_ps,
                "row": parts.row,
                "is_proved": parts.is_proved,
                "computes": parts.phase == Phase.HOST_OP,
                "inside_ps": inside_ps(work.within, parts.start_ps, parts.end_ps),
            }
        )[parts.is_exposed]

    @cached_property
    def exposed_by_op_ps(self) -> pd.Series[float]:
        """The time per step that the device waited for each op of its host, by op id."""
        rows, inside = (self._waits[name].to_numpy() for name in ("row", "inside_ps"))
        return _by_op(self.work.host, rows, inside) / self.work.steps

    def waits_for(self, op_ids: Iterable[str]) -> pd.DataFrame:
        return self._waits[self.work.is_of(op_ids, self._waits)]

    def least_gain_ps(self, op_ids: Iterable[str]) -> float:
        """Return a lower bound on the time per step that this device saves if the ops run on it."""
        work, waits = self.work, self.waits_for(op_ids)
        proved = waits[waits["is_proved"] & waits["computes"]]
        is_own = work.is_of(op_ids, work.computed)
        alone = without(common(_times(proved), work.within), _times(work.computed[~is_own]))
        begin = work.computed["start_ps"][is_own].to_numpy(np.int64)
        # An upper bound of how often the ops ran: one run can have several pieces.
        runs = int(inside_ps(work.within, begin, begin + 1).sum())
        computed_ps = int(waits["inside_ps"][waits["computes"]].sum())
        own_ps = runs * work.launch_ps + _DEVICE_SHARE * computed_ps
        return min(max(0.0, alone.total_ps - own_ps), work.room_ps) / work.steps


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
