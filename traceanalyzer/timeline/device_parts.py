"""What each device did at each moment; and where it stood idle, what it waited for.

A device's time is cut into parts that follow on each other, each of one phase, so that they add up
to the whole and nothing counts twice. Where a kernel ran it computed, whatever else went on. Where
none ran and a copy did, it waited for the copy. The rest is idle: there the walk goes back in time
from what ended the gap (`walk`). What the walk passes is what the device waited for. What merely
ran at the same time is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.native.walk import busy_and_idle
from traceanalyzer.tables.thread_activity import Launches
from traceanalyzer.tables.thread_links import DEVICE_LANE
from traceanalyzer.timeline.device_work import device_work, durations
from traceanalyzer.timeline.intervals import union
from traceanalyzer.timeline.phase import Phase
from traceanalyzer.timeline.walk import Parts, Spans, program_lane, walk_back

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from numpy.typing import NDArray

    from traceanalyzer.tables.host_tables import HostTables
    from traceanalyzer.tables.thread_activity import ThreadActivity
    from traceanalyzer.timeline.device_work import DeviceWork


@dataclass(frozen=True, eq=False, kw_only=True)
class DeviceParts:
    """What one device did from its first event, or the first step, to its last.

    Attributes:
        device: Name of the device's plane.
        parts: Its parts. Times are the host's clock.
    """

    device: str
    parts: Parts


@dataclass(frozen=True, eq=False, kw_only=True)
class HostTimeline:
    """The time of one host and its devices.

    Attributes:
        devices: The devices that ran kernels.
        program: What the program's own thread waited for, where no device ran kernels; or None.
        work: What ran on the devices; None where none of them ran kernels.
    """

    devices: tuple[DeviceParts, ...] = ()
    program: Parts | None = None
    work: DeviceWork | None = None

    @property
    def shifts_ps(self) -> Mapping[str, int]:
        """What was added to the times of each device, so that nothing begins before its launch."""
        return {} if self.work is None else self.work.shifts_ps


def host_timeline(tables: HostTables) -> HostTimeline:
    """Cut the time of a host's devices; without any that ran kernels, that of its program."""
    if tables.kernels.empty:
        return HostTimeline(program=_program_parts(tables))
    work = device_work(tables)
    devices = tuple(
        DeviceParts(device=name, parts=_device_parts(number, tables, work))
        for number, name in enumerate(work.devices)
    )
    return HostTimeline(devices=devices, work=work)


def _device_parts(device: int, tables: HostTables, work: DeviceWork) -> Parts:
    own = np.flatnonzero(work.device == device)
    ran, copied = own[~work.is_copy[own]], own[work.is_copy[own]]
    copied = copied[np.argsort(work.start_ps[copied], kind="stable")]
    busy = union(work.start_ps[ran], work.end_ps[ran] - work.start_ps[ran])
    from_ps, to_ps = _extent(tables.steps, work.start_ps[own], work.end_ps)
    start, end, phase, copy = busy_and_idle(
        busy, (work.start_ps[copied], work.end_ps[copied]), (from_ps, to_ps)
    )
    gap = phase == Phase.UNATTRIBUTED
    spans = Spans(start[gap], end[gap], _ended_by(end[gap], own, work, tables.threads))
    walked = walk_back(spans, tables.threads, work)
    event = np.append(copied, -1)[
        copy[~gap]
    ]  # of the host's device work; the last stands for no copy
    return Parts(
        start_ps=np.concatenate([start[~gap], walked.start_ps]),
        end_ps=np.concatenate([end[~gap], walked.end_ps]),
        phase=np.concatenate([phase[~gap], walked.phase]),
        row=np.concatenate([np.where(event >= 0, work.row[event], -1), walked.row]),
        copy=np.concatenate([np.where(event >= 0, work.copy[event], -1), walked.copy]),
        is_proved=np.concatenate([np.ones(len(event), np.bool_), walked.is_proved]),
    ).by_time()


def _ended_by(
    end_ps: NDArray[np.int64],
    own: NDArray[np.int64],
    work: DeviceWork,
    lanes: ThreadActivity | None,
) -> Launches:
    """Return the launch of what ended each gap of a device.

    Of several that began then, the one launched last. After all of them the walk follows the
    program's own thread: the device's next work is not in the trace.
    """
    launches = work.launches.take(own)
    order = np.lexsort((-launches.start_ps, work.start_ps[own]))
    slot = np.searchsorted(work.start_ps[own][order], end_ps)
    is_followed = slot < len(own)
    found = launches.take(order[slot.clip(max=len(own) - 1)])
    lane = np.where(is_followed, found.lane, program_lane(lanes)).astype(np.int32)
    return Launches(
        lane,
        np.where(is_followed, found.start_ps, end_ps),
        np.where(is_followed, found.end_ps, end_ps),
        (is_followed & found.is_proved) | (lane == DEVICE_LANE),  # nothing is taken for granted
    )


def _program_parts(tables: HostTables) -> Parts | None:
    """Cut the time of the program's own thread, back from where it ended."""
    lanes = tables.threads
    lane = program_lane(lanes)
    if lanes is None or lane == DEVICE_LANE:
        return None
    own = slice(int(lanes.begin[lane]), int(lanes.begin[lane + 1]))
    if own.start == own.stop:
        return None
    starts = tables.steps["start_ps"].to_numpy(np.int64)
    # Each step by itself: what led to its end is not followed into the one before.
    extent = [lanes.start_ps[own].min(), lanes.end_ps[own].max()]
    bounds = np.unique(np.concatenate([extent, starts, starts + durations(tables.steps)]))
    start, end = bounds[:-1], bounds[1:]
    itself = np.ones(len(start), np.bool_)
    launch = Launches(np.full(len(start), lane, np.int32), end, end, itself)
    return walk_back(Spans(start, end, launch), lanes, None)


def _extent(
    steps: pd.DataFrame, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[int, int]:
    """Return the time to account for: from the device's first event or step to the last."""
    first, last = int(starts.min()), int(ends.max())
    if len(steps):
        first = min(first, int(steps["start_ps"].min()))
        last = max(last, int((steps["start_ps"] + steps["duration_ps"]).max()))
    return first, last
