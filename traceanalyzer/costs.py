"""What CPU ops cost: how long devices waited for them, and how much a fix can save.

The gain of a fix has bounds. At most, it is the time in which any device of the host was idle
because of the ops: the rest of their time is hidden already, and if devices wait for each other,
gains of one can add to gains of another. A step ends when its last device does, so at least it
gains what the device with the smallest gain does. That is its waiting time without everything
doubtful: links that the walk back did not prove; transfers, because a neighbor of the op may need
them next; times when other CPU ops ran as well, for which the device might wait instead; and the
cost of the ops on the device itself, which is a launch each and a quarter of their host time. The
gain is also limited by what runs beside the ops in the step: the input pipeline, and the device
that computes most.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from traceanalyzer.native.events import sum_by
from traceanalyzer.tables.steps import regular_steps
from traceanalyzer.tables.thread_activity import ON_DEVICE, ThreadState
from traceanalyzer.timeline.critical_path import critical_path, path_graph
from traceanalyzer.timeline.exposed import is_exposed
from traceanalyzer.timeline.intervals import Intervals, common, inside_ps, union, without
from traceanalyzer.timeline.phase import Phase
from traceanalyzer.timeline.walk import program_thread

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    import networkx as nx
    from numpy.typing import NDArray

    from traceanalyzer.run import Host, Run
    from traceanalyzer.timeline.walk import Parts

# Time of an op on the device, as a share of its host time. No trace shows it. Ops that are slower
# on a GPU are better left alone, and a lower bound of 0 says so.
_DEVICE_SHARE: Final = 0.25
_LAUNCH_QUANTILE: Final = 0.25  # from launch to start: kernels that queue take longer


@dataclass(frozen=True, kw_only=True)
class GainBounds:
    """How much a fix can save, in picoseconds per step."""

    #: At least: the gain of the device that gains least.
    low_ps: float = 0
    #: At most: the time in which some device waited.
    high_ps: float = 0
    #: The part of `high_ps` in which only other devices waited.
    others_ps: float = 0
    # Parts of the waiting time of the device that gains least; `low_ps` is the rest.
    #: The walk back did not prove a link.
    unproved_ps: float = 0
    #: Transfers, which may move elsewhere.
    copied_ps: float = 0
    #: Other CPU ops ran as well.
    shared_ps: float = 0
    #: What the ops would cost on the device.
    own_ps: float = 0
    #: The input pipeline or another device takes this time anyway.
    beside_ps: float = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class HostPath:
    """The critical path through the regular steps of one host."""

    host: Host
    #: How many steps.
    steps: int
    #: Its parts; the steps follow each other.
    path: Parts

    @cached_property
    def of_row_ps(self) -> NDArray[np.int64]:
        """The path's time in each row of the host's op table."""
        rows = self.path.row.astype(np.int64)
        return sum_by(rows, self.path.duration_ps, len(self.host.tables.ops))

    @cached_property
    def graph(self) -> nx.DiGraph[int]:
        """The path as a graph with a node per part; see `path_graph`."""
        return path_graph(self.path, self.host.tables.ops)

    def of_ops_ps(self, op_ids: Collection[str]) -> int:
        """Return the path's time in the given ops."""
        chosen = self.host.tables.ops["op_id"].isin(op_ids).to_numpy()
        return int(self.of_row_ps[chosen].sum())


class Costs:
    """The costs of a run's ops per regular step."""

    def __init__(self, run: Run) -> None:
        self._run = run

    @cached_property
    def _by_host(self) -> list[list[_Device]]:
        """The devices that computed, for each host that has any and steps."""
        found = []
        for host in self._run.hosts:
            steps = regular_steps(host.tables.steps)
            if len(steps) and host.timeline.devices:
                work = _HostWork(host, steps)
                found.append([_Device(work, device.parts) for device in host.timeline.devices])
        return found

    @cached_property
    def _devices(self) -> list[_Device]:
        return [device for devices in self._by_host for device in devices]

    @cached_property
    def paths(self) -> tuple[HostPath, ...]:
        """The critical path through the regular steps of each host that has any."""
        found = []
        for host in self._run.hosts:
            steps = regular_steps(host.tables.steps)
            if len(steps) and program_thread(host.tables.threads) != ON_DEVICE:
                path = critical_path(host.tables, host.timeline, steps)
                found.append(HostPath(host=host, steps=len(steps), path=path))
        return tuple(found)

    @cached_property
    def host_by_op_ps(self) -> pd.Series[float] | None:
        """The host time of each op per step, by op id."""
        found = []
        for host in self._run.hosts:
            steps, threads = regular_steps(host.tables.steps), host.tables.threads
            if not len(steps) or threads is None:
                continue
            known = threads.row >= 0
            inside = inside_ps(_intervals(steps), threads.start_ps[known], threads.end_ps[known])
            rows = threads.row[known].astype(np.int64)
            took = sum_by(rows, inside, len(host.tables.ops)) / len(steps)
            found.append(pd.Series(took, index=host.tables.ops["op_id"].to_numpy()))
        return pd.concat(found) if found else None

    @cached_property
    def exposed_by_op_ps(self) -> pd.Series[float] | None:
        """How long devices waited for each op per step, by op id; as `exposed_ps` for one op."""
        if not self._devices:
            return None
        by_host = pd.concat([device.exposed_by_op_ps() for device in self._devices])
        return by_host.groupby(level=0).sum() / len(self._devices)

    def host_ps(self, op_ids: Iterable[str]) -> float | None:
        """Return the time of ops on host threads per step, all hosts together.

        Returns:
            None without steps.
        """
        of_op = self.host_by_op_ps
        return None if of_op is None else float(of_op.reindex(list(op_ids)).sum())

    def path_ps(self, op_ids: Iterable[str]) -> float | None:
        """Return the critical path's time in ops per step; the mean over hosts.

        Returns:
            None without steps.
        """
        ids = set(op_ids)
        return _mean([path.of_ops_ps(ids) / path.steps for path in self.paths])

    def exposed_ps(self, op_ids: Iterable[str]) -> float | None:
        """Return how long devices waited for ops per step; the mean over devices.

        Returns:
            None without a device that computed, or without steps.
        """
        ids = set(op_ids)
        return _mean([device.exposed_ps(ids) for device in self._devices])

    def step_ps(self) -> float | None:
        """Return the duration of the steps that `exposed_ps` refers to; the mean over devices.

        Returns:
            None without a device that computed, or without steps.
        """
        return _mean([d.work.within.total_ps / d.work.steps for d in self._devices])

    def gain(self, op_ids: Iterable[str]) -> GainBounds | None:
        """Return how much moving ops to the device can save.

        Hosts run their steps together: with several, the bounds are those of the host that can gain
        most and of the one that gains least.

        Returns:
            None without a device that computed, or without steps.
        """
        ids = set(op_ids)
        if not self._devices:
            return None
        least = min(
            (device.gain(ids) for device in self._devices),
            key=lambda bounds: (bounds.low_ps, bounds.high_ps),
        )
        high_ps = max(_waited_ps(devices, ids) for devices in self._by_host)
        return replace(least, high_ps=high_ps, others_ps=max(0, high_ps - least.high_ps))


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _intervals(steps: pd.DataFrame) -> Intervals:
    return union(steps["start_ps"].to_numpy(np.int64), steps["duration_ps"].to_numpy(np.int64))


def _waited_ps(devices: Sequence[_Device], op_ids: Collection[str]) -> float:
    """Return how long any of a host's devices waited for ops, per step."""
    start, end = zip(*(device.waits(op_ids) for device in devices), strict=True)
    starts, ends = np.concatenate(start), np.concatenate(end)
    work = devices[0].work
    return common(union(starts, ends - starts), work.within).total_ps / work.steps


class _HostWork:
    """What a host did within its regular steps."""

    def __init__(self, host: Host, steps: pd.DataFrame) -> None:
        self.steps = len(steps)
        self.within = _intervals(steps)
        self.op_ids: list[str] = host.tables.ops["op_id"].tolist()
        self.n_rows = len(self.op_ids)
        self._row_of = {op_id: row for row, op_id in enumerate(self.op_ids)}
        self.launch_ps = _launch_ps(host)
        threads = host.tables.threads
        self._start = self._end = np.empty(0, np.int64)
        self._row = np.empty(0, np.int32)
        if threads is not None:
            computes = np.isin(threads.state, (ThreadState.HOST_OP, ThreadState.UNPLACED))
            self._start, self._end = threads.start_ps[computes], threads.end_ps[computes]
            self._row = threads.row[computes]
        self.room_ps = self.within.total_ps - max(self._beside(host))

    def _beside(self, host: Host) -> Iterator[int]:
        """Walk the times of what runs in the steps whatever the program's own thread does.

        That is the input pipeline on threads of its own, and the kernels of each device.
        """
        parts = [device.parts for device in host.timeline.devices]
        spans = [(p.start_ps, p.duration_ps, p.phase == Phase.COMPUTE) for p in parts]
        threads = host.tables.threads
        if threads is not None:
            own = np.repeat(threads.is_program, np.diff(threads.begin))
            is_input = (threads.state == ThreadState.INPUT) & ~own
            spans.append((threads.start_ps, threads.end_ps - threads.start_ps, is_input))
        for start, took, chosen in spans:
            yield common(union(start[chosen], took[chosen]), self.within).total_ps

    def rows(self, op_ids: Iterable[str]) -> NDArray[np.int32]:
        """Return the rows of this host's ops."""
        return np.array([self._row_of[i] for i in op_ids if i in self._row_of], np.int32)

    def runs(self, rows: NDArray[np.int32]) -> int:
        """Return an upper bound of how often ops ran: one run can have several pieces."""
        start = self._start[np.isin(self._row, rows)]
        return int(inside_ps(self.within, start, start + 1).sum())

    def others(self, rows: NDArray[np.int32]) -> Intervals:
        """Return when other ops computed on the host, or may have."""
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

    def exposed_by_op_ps(self) -> pd.Series[float]:
        """Return how long the device waited for each op of its host, per step; by op id."""
        return pd.Series(self._of_row / self.work.steps, index=self.work.op_ids)

    def waits(self, op_ids: Collection[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return when the device waited for ops: starts and ends."""
        mine = np.isin(self._row, self.work.rows(op_ids))
        return self._start[mine], self._end[mine]

    def gain(self, op_ids: Iterable[str]) -> GainBounds:
        """Return how much moving ops can save on this device, per step."""
        work = self.work
        rows = work.rows(op_ids)
        exposed = int(self._of_row[rows].sum())
        if not exposed:
            return GainBounds()
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
    """Return the time from a kernel's launch to its start; 0 if unknown."""
    work = host.timeline.work
    if work is None:
        return 0
    known = (work.launches.thread != ON_DEVICE) & ~work.is_transfer
    took = (work.start_ps - work.launches.start_ps)[known].clip(0)
    return int(np.quantile(took, _LAUNCH_QUANTILE)) if len(took) else 0
