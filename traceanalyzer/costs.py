"""What ops on the host cost: how long devices waited for them, and what mending them can gain.

The gain of a fix lies within bounds. It is at most the time in which any device of the host stood
idle because of the ops: the rest of theirs is hidden already, and where devices wait for one
another, what one of them gains can add to what another does. A step ends when its last device does,
so it gains at least what the device does that gains least. That is what is left of the time that it
waited when all that is doubtful is taken off: where the walk took a link for granted; copies, for
what an op no longer takes from the host its neighbour may; where other ops of the host ran as well,
that the device might wait for instead; and what the ops cost on the device themselves: a launch
each, and a quarter of the time that they took on the host. Nor is it more than what the step is
longer than what goes on beside the ops: the input pipeline, and the device that computes most.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from traceanalyzer.native.events import sum_by
from traceanalyzer.tables.step_kinds import regular_steps
from traceanalyzer.tables.thread_activity import ThreadState
from traceanalyzer.tables.thread_links import DEVICE_LANE
from traceanalyzer.timeline.critical_path import critical_path, path_graph
from traceanalyzer.timeline.exposed import is_exposed
from traceanalyzer.timeline.intervals import Intervals, common, inside_ps, union, without
from traceanalyzer.timeline.phase import Phase
from traceanalyzer.timeline.walk import program_lane

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    import networkx as nx
    from numpy.typing import NDArray

    from traceanalyzer.run import Host, Run
    from traceanalyzer.timeline.walk import Parts

__all__ = ["Costs", "GainBounds", "HostPath"]

# What an op takes on the device, of what it took on the host. Nothing in the trace tells it; ops
# that a GPU is slower at are cheaper left alone, and a lower bound of 0 says so.
_DEVICE_SHARE: Final = 0.25
_LAUNCH_QUANTILE: Final = 0.25  # of launch to begin: what waits in a queue takes longer


@dataclass(frozen=True, kw_only=True)
class GainBounds:
    """What mending something can gain, picoseconds a step.

    Attributes:
        low_ps: At least: what the device gains that gains least.
        high_ps: At most: the time in which some device waited.
        others_ps: Of that, in which only others waited than the one that gains least.
        unproved_ps: Of the rest, where the walk back took a link for granted.
        copied_ps: Of the rest, for copies, which may move elsewhere.
        shared_ps: Of the rest, while other ops of the host ran as well.
        own_ps: What the ops would cost on the device.
        beside_ps: Of the rest, what the input pipeline or another device takes anyway.
    """

    low_ps: float
    high_ps: float
    others_ps: float = 0
    unproved_ps: float
    copied_ps: float
    shared_ps: float
    own_ps: float
    beside_ps: float


@dataclass(frozen=True, eq=False, kw_only=True)
class HostPath:
    """The critical path through the regular steps of one host.

    Attributes:
        host: The host.
        steps: How many steps.
        path: Its parts; the steps follow on each other.
    """

    host: Host
    steps: int
    path: Parts

    @cached_property
    def of_row_ps(self) -> NDArray[np.int64]:
        """What of it is in each row of the host's op table, int64."""
        rows = self.path.row.astype(np.int64)
        return sum_by(rows, self.path.duration_ps, len(self.host.tables.ops))

    @cached_property
    def graph(self) -> nx.DiGraph[int]:
        """The path as a graph: a node a part; see `path_graph`."""
        return path_graph(self.path, self.host.tables.ops)

    def of_ops_ps(self, op_ids: Collection[str]) -> int:
        """Return what of it is in ops."""
        chosen = self.host.tables.ops["op_id"].isin(op_ids).to_numpy()
        return int(self.of_row_ps[chosen].sum())


class Costs:
    """The costs of a run's ops, per step."""

    def __init__(self, run: Run) -> None:
        """Gather what devices waited for within the regular steps.

        Args:
            run: The run.
        """
        self._run = run

    @cached_property
    def _devices(self) -> tuple[tuple[_Device, ...], ...]:
        """The devices that computed, of each host that has any and steps."""
        found = []
        for host in self._run.hosts:
            steps = regular_steps(host.tables.steps)
            if len(steps) and host.timeline.devices:
                work = _HostWork(host, steps)
                found.append(tuple(_Device(work, d.parts) for d in host.timeline.devices))
        return tuple(filter(None, found))

    @cached_property
    def paths(self) -> tuple[HostPath, ...]:
        """The critical path through the regular steps of each host that has any, and calls."""
        found = []
        for host in self._run.hosts:
            steps = regular_steps(host.tables.steps)
            if len(steps) and program_lane(host.tables.threads) != DEVICE_LANE:
                path = critical_path(host.tables, host.timeline, steps)
                found.append(HostPath(host=host, steps=len(steps), path=path))
        return tuple(found)

    @cached_property
    def _of_row_ps(self) -> pd.Series[float] | None:
        """The host time of each op within the regular steps, per step; None without steps."""
        found = []
        for host in self._run.hosts:
            steps, lanes = regular_steps(host.tables.steps), host.tables.threads
            if not len(steps) or lanes is None:
                continue
            within = union(
                steps["start_ps"].to_numpy(np.int64), steps["duration_ps"].to_numpy(np.int64)
            )
            known = lanes.row >= 0
            inside = inside_ps(within, lanes.start_ps[known], lanes.end_ps[known])
            rows = lanes.row[known].astype(np.int64)
            took = sum_by(rows, inside, len(host.tables.ops)) / len(steps)
            found.append(pd.Series(took, index=host.tables.ops["op_id"].to_numpy()))
        return pd.concat(found) if found else None

    def host_ps(self, op_ids: Iterable[str]) -> float | None:
        """Return the time that ops take on host threads per step, all hosts together.

        Returns:
            None without steps.
        """
        of_row = self._of_row_ps
        return None if of_row is None else float(of_row.reindex(list(op_ids)).sum())

    def path_ps(self, op_ids: Iterable[str]) -> float | None:
        """Return what of the critical path is in ops, per step; the mean over hosts.

        Returns:
            None without steps.
        """
        asked = set(op_ids)
        if not self.paths:
            return None
        return sum(p.of_ops_ps(asked) / p.steps for p in self.paths) / len(self.paths)

    def exposed_ps(self, op_ids: Iterable[str]) -> float | None:
        """Return how long devices waited for ops per step; the mean over devices.

        Returns:
            None without a device that computed, or without steps.
        """
        asked = set(op_ids)
        every = [device for devices in self._devices for device in devices]
        if not every:
            return None
        return sum(d.exposed_ps(asked) for d in every) / len(every)

    def step_ps(self) -> float | None:
        """Return how long the steps take that `exposed_ps` is of; the mean over devices.

        Returns:
            None without a device that computed, or without steps.
        """
        every = [device.work for devices in self._devices for device in devices]
        if not every:
            return None
        return sum(work.within.total_ps / work.steps for work in every) / len(every)

    def gain(self, op_ids: Iterable[str]) -> GainBounds | None:
        """Return what can be gained by moving ops to the device.

        Hosts take their steps together: of several, the bounds are those of the host that can gain
        most and of the one that gains least.

        Returns:
            None without a device that computed, or without steps.
        """
        asked = set(op_ids)
        if not self._devices:
            return None
        least = min(
            (d.gain(asked) for devices in self._devices for d in devices),
            key=lambda bounds: (bounds.low_ps, bounds.high_ps),
        )
        high_ps = max(_waited_ps(devices, asked) for devices in self._devices)
        return replace(least, high_ps=high_ps, others_ps=max(0, high_ps - least.high_ps))


def _waited_ps(devices: Sequence[_Device], op_ids: Collection[str]) -> float:
    """Return how long some of a host's devices waited for ops, per step."""
    start, end = zip(*(device.waits(op_ids) for device in devices), strict=True)
    starts, ends = np.concatenate(start), np.concatenate(end)
    work = devices[0].work
    return common(union(starts, ends - starts), work.within).total_ps / work.steps


class _HostWork:
    """What a host did within its regular steps."""

    def __init__(self, host: Host, steps: pd.DataFrame) -> None:
        self.steps = len(steps)
        self.within = union(
            steps["start_ps"].to_numpy(np.int64), steps["duration_ps"].to_numpy(np.int64)
        )
        self.n_rows = len(host.tables.ops)
        self._row_of = {op_id: row for row, op_id in enumerate(host.tables.ops["op_id"])}
        self.launch_ps = _launch_ps(host)
        lanes = host.tables.threads
        may_compute = (ThreadState.HOST_OP, ThreadState.UNPLACED)
        computes = slice(0, 0) if lanes is None else np.isin(lanes.state, may_compute)
        none = np.empty(0, np.int64)
        self._start = none if lanes is None else lanes.start_ps[computes]
        self._end = none if lanes is None else lanes.end_ps[computes]
        self._row = none.astype(np.int32) if lanes is None else lanes.row[computes]
        self.room_ps = self.within.total_ps - max(self._beside(host))

    def _beside(self, host: Host) -> Iterable[int]:
        """Return what goes on within the steps whatever the program's own thread does.

        That is the time of the input pipeline on threads of its own, and of each device's kernels.
        """
        lanes = host.tables.threads
        times = [d.parts for d in host.timeline.devices]
        spans = [(p.start_ps, p.duration_ps, p.phase == Phase.COMPUTE) for p in times]
        if lanes is not None:
            own = np.repeat(lanes.is_program, np.diff(lanes.begin))
            is_input = (lanes.state == ThreadState.INPUT) & ~own
            spans.append((lanes.start_ps, lanes.end_ps - lanes.start_ps, is_input))
        for start, took, chosen in spans:
            yield common(union(start[chosen], took[chosen]), self.within).total_ps

    def rows(self, op_ids: Iterable[str]) -> NDArray[np.int32]:
        """Return the rows of ops, of this host."""
        return np.array([self._row_of[i] for i in op_ids if i in self._row_of], np.int32)

    def runs(self, rows: NDArray[np.int32]) -> int:
        """Return how often ops ran within the steps: no less, as one may be in several pieces."""
        start = self._start[np.isin(self._row, rows)]
        return int(inside_ps(self.within, start, start + 1).sum())

    def others(self, rows: NDArray[np.int32]) -> Intervals:
        """Return when some op but these computed on the host, or may have."""
        other = ~np.isin(self._row, rows)
        return union(self._start[other], (self._end - self._start)[other])


class _Device:
    """What one device waited for within the regular steps."""

    def __init__(self, work: _HostWork, parts: Parts) -> None:
        self.work = work
        waits = is_exposed(parts)
        self._start, self._end = parts.start_ps[waits], parts.end_ps[waits]
        self._row, self._is_proved = parts.row[waits], parts.is_proved[waits]
        self._computes = parts.phase[waits] == Phase.HOST_OP
        self._inside = inside_ps(work.within, self._start, self._end)
        self._of_row = sum_by(self._row.astype(np.int64), self._inside, work.n_rows)

    def exposed_ps(self, op_ids: Iterable[str]) -> float:
        """Return how long the device waited for ops, per step."""
        return int(self._of_row[self.work.rows(op_ids)].sum()) / self.work.steps

    def waits(self, op_ids: Collection[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return when the device waited for ops: starts and ends."""
        mine = np.isin(self._row, self.work.rows(op_ids))
        return self._start[mine], self._end[mine]

    def gain(self, op_ids: Iterable[str]) -> GainBounds:
        """Return what can be gained on this device, per step."""
        work = self.work
        rows = work.rows(op_ids)
        exposed = int(self._of_row[rows].sum())
        if not exposed:
            return GainBounds(
                low_ps=0,
                high_ps=0,
                unproved_ps=0,
                copied_ps=0,
                shared_ps=0,
                own_ps=0,
                beside_ps=0,
            )
        mine = np.isin(self._row, rows)
        proved = mine & self._is_proved
        proved_ps = int(self._inside[proved].sum())
        chosen = proved & self._computes
        times = common(union(self._start[chosen], (self._end - self._start)[chosen]), work.within)
        alone = without(times, work.others(rows))
        computed = int(self._inside[mine & self._computes].sum())
        own = work.runs(rows) * work.launch_ps + _DEVICE_SHARE * computed
        rest = max(0.0, alone.total_ps - own)
        low = min(rest, max(0, work.room_ps))
        return GainBounds(
            low_ps=low / work.steps,
            high_ps=exposed / work.steps,
            unproved_ps=(exposed - proved_ps) / work.steps,
            copied_ps=(proved_ps - times.total_ps) / work.steps,
            shared_ps=(times.total_ps - alone.total_ps) / work.steps,
            own_ps=own / work.steps,
            beside_ps=(rest - low) / work.steps,
        )


def _launch_ps(host: Host) -> int:
    """Return what bringing a kernel to the device takes, from the launch on; 0 where unknown."""
    work = host.timeline.work
    if work is None:
        return 0
    known = (work.launches.lane != DEVICE_LANE) & ~work.is_copy
    took = (work.start_ps - work.launches.start_ps)[known].clip(0)
    return int(np.quantile(took, _LAUNCH_QUANTILE)) if len(took) else 0
