"""What each device did at each moment; and where it stood idle, what it waited for.

A device's time is cut into parts that follow on each other, each of one phase, so that they add up
to the whole and nothing counts twice. Where a kernel ran it computed, whatever else went on. Where
none ran and a copy did, it waited for the copy. The rest is idle: there the walk goes back in time
from what ended the gap. A thread launched it; before that the thread did something else, or was set
going by another; and so on, back to where the gap began. What the walk passes is what the device
waited for. What merely ran at the same time is not.

Host and device clocks are set against each other by the profiler, and may be off: where work begins
before it was launched, the device's times are moved until it does not (`shift_ps`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from traceanalyzer.tables.lanes import DEVICE_LANE
from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.timeline import compiled
from traceanalyzer.timeline.intervals import union
from traceanalyzer.timeline.phase import Phase

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from traceanalyzer.tables.host_tables import HostTables
    from traceanalyzer.tables.lanes import Lanes

__all__ = ["DeviceParts", "HostTimeline", "Parts", "host_timeline"]

_TOO_EARLY_SHARE: Final = 0.01  # work that begins before its launch, until clocks are called off
_ON_THE_HOST: Final = ("cpu", "host_memory")


class Parts(NamedTuple):
    """Times that follow on each other; one entry a part, by time.

    Attributes:
        start_ps: Starts, int64.
        end_ps: Ends, int64.
        phase: `Phase`, uint8.
        row: Row of the host's op table that is waited for, -1 for none; int32.
        copy: Row of the host's copy table, -1 for none; int64.
        is_proved: Whether every step of the walk that led here is in the trace; else some thread
            was taken to be set going by what ended last in its call.
    """

    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    phase: NDArray[np.uint8]
    row: NDArray[np.int32]
    copy: NDArray[np.int64]
    is_proved: NDArray[np.bool_]

    @property
    def duration_ps(self) -> NDArray[np.int64]:
        """How long each part is, int64."""
        return self.end_ps - self.start_ps

    def by_time(self) -> Parts:
        """Return the parts in order of time."""
        order = np.argsort(self.start_ps, kind="stable")
        return Parts(
            self.start_ps[order],
            self.end_ps[order],
            self.phase[order],
            self.row[order],
            self.copy[order],
            self.is_proved[order],
        )


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
        shift_ps: What was added to the times of devices, so that nothing begins before its launch.
    """

    devices: tuple[DeviceParts, ...] = ()
    program: Parts | None = None
    shift_ps: int = 0


class _Launches(NamedTuple):
    """The launch of each device event: its lane (-1 where unknown), begin and return."""

    lane: NDArray[np.int32]
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]

    def take(self, rows: NDArray[np.int64]) -> _Launches:
        """Return those at `rows`."""
        return _Launches(self.lane[rows], self.start_ps[rows], self.end_ps[rows])


class _Spans(NamedTuple):
    """Times to account for, back from what ended them."""

    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    launch: _Launches


def host_timeline(tables: HostTables) -> HostTimeline:
    """Cut the time of a host's devices; without any that ran kernels, that of its program."""
    lanes = tables.lanes
    kernels, copies = tables.kernels, tables.copies
    computing = [str(device) for device in kernels["device"].unique()]
    if not computing:
        return HostTimeline(program=_program_parts(tables))
    shift_ps = _shift_ps(kernels, copies, lanes)
    ends = np.sort(
        np.concatenate([_ends(kernels), _ends(copies)[copies["device"].notna().to_numpy()]])
    )
    devices = tuple(
        DeviceParts(device=name, parts=_device_parts(name, tables, ends + shift_ps, shift_ps))
        for name in computing
    )
    return HostTimeline(devices=devices, shift_ps=shift_ps)


def _device_parts(name: str, tables: HostTables, ends: NDArray[np.int64], shift_ps: int) -> Parts:
    kernels, copies, lanes = tables.kernels, tables.copies, tables.lanes
    ran = np.flatnonzero((kernels["device"] == name).to_numpy())
    copied = np.flatnonzero((copies["device"] == name).to_numpy())
    copied = copied[np.argsort(copies["start_ps"].to_numpy()[copied], kind="stable")]
    kernel_start = kernels["start_ps"].to_numpy(np.int64)[ran] + shift_ps
    kernel_ps = kernels["duration_ps"].to_numpy(np.int64)[ran]
    busy = union(kernel_start, kernel_ps)
    copy_start = copies["start_ps"].to_numpy(np.int64)[copied] + shift_ps
    copy_end = copy_start + _durations(copies)[copied].clip(0)
    from_ps, to_ps = _extent(tables, np.concatenate([kernel_start, copy_start]), ends)
    start, end, phase, copy = compiled.busy_and_idle(*busy, copy_start, copy_end, from_ps, to_ps)
    gap = np.flatnonzero(phase == Phase.UNATTRIBUTED)

    launches = _launches(np.concatenate([_ids(kernels)[ran], _ids(copies)[copied]]), lanes)
    starts = np.concatenate([kernel_start, copy_start])
    by_start = np.lexsort((-launches.start_ps, starts))
    upcoming = np.searchsorted(starts[by_start], end[gap])
    known = upcoming < len(starts)
    first = by_start[upcoming.clip(max=len(starts) - 1)]
    found = launches.take(first)
    lane = np.where(known & (starts[first] == end[gap]), found.lane, DEVICE_LANE)
    last = _program_lane(lanes)
    lane[~known] = last
    launch = _Launches(
        lane.astype(np.int32),
        np.where(known, found.start_ps, end[gap]),
        np.where(known, found.end_ps, end[gap]),
    )
    walked = _walk(_Spans(start[gap], end[gap], launch), lanes, ends, shift_ps)
    kept = phase != Phase.UNATTRIBUTED
    rows = _blamed(tables)[copied] if len(copied) else np.empty(0, np.int32)
    pieces = Parts(
        start_ps=np.concatenate([start[kept], walked.start_ps]),
        end_ps=np.concatenate([end[kept], walked.end_ps]),
        phase=np.concatenate([phase[kept], walked.phase]),
        row=np.concatenate([np.append(rows, -1)[copy[kept]].astype(np.int32), walked.row]),
        copy=np.concatenate([np.append(copied, -1)[copy[kept]], walked.copy]),
        is_proved=np.concatenate([np.ones(int(kept.sum()), np.bool_), walked.is_proved]),
    )
    return pieces.by_time()


def _program_parts(tables: HostTables) -> Parts | None:
    """Cut the time of the program's own thread, back from where it ended."""
    lanes = tables.lanes
    lane = _program_lane(lanes)
    if lanes is None or lane < 0:
        return None
    own = slice(int(lanes.begin[lane]), int(lanes.begin[lane + 1]))
    if own.start == own.stop:
        return None
    starts = tables.steps["start_ps"].to_numpy(np.int64)
    # Each step by itself: what led to its end is not followed into the one before.
    extent = [lanes.start_ps[own].min(), lanes.end_ps[own].max()]
    bounds = np.unique(np.concatenate([extent, starts, starts + _durations(tables.steps)]))
    start, end = bounds[:-1], bounds[1:]
    launch = _Launches(np.full(len(start), lane, np.int32), end, end)
    return _walk(_Spans(start, end, launch), lanes, np.empty(0, np.int64), 0).by_time()


def _walk(
    spans: _Spans,
    lanes: Lanes | None,
    ends: NDArray[np.int64],
    shift_ps: int,
) -> Parts:
    if lanes is None:
        n = len(spans.start_ps)
        return Parts(
            spans.start_ps,
            spans.end_ps,
            np.full(n, Phase.UNATTRIBUTED, np.uint8),
            np.full(n, -1, np.int32),
            np.full(n, -1, np.int64),
            np.ones(n, np.bool_),
        )
    links = lanes.links
    times = np.empty(0, np.int64)
    number = np.empty(0, np.int32)
    walked = compiled.walk_back(
        (spans.start_ps, spans.end_ps, *spans.launch),
        (
            lanes.begin,
            lanes.is_program,
            lanes.start_ps,
            lanes.end_ps,
            lanes.doing,
            lanes.row,
            lanes.call,
        ),
        (links.begin, links.at_ps, links.from_lane, links.from_ps, links.is_proved),
        _moved_calls(lanes, shift_ps),
        (times, ends, np.empty(0, np.uint8), number, number, times, times, times),
    )
    start, end, phase, row, _, event, proved = walked
    return Parts(start, end, phase, row, np.full(len(event), -1, np.int64), proved)


def _moved_calls(
    lanes: Lanes, shift_ps: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32], NDArray[np.bool_]]:
    """Return what ended in calls, the device's copies on the host's clock."""
    at_ps = lanes.call_ps + np.where(lanes.call_lane == DEVICE_LANE, shift_ps, 0)
    order = np.lexsort((at_ps, lanes.call_id))
    return lanes.call_id[order], at_ps[order], lanes.call_lane[order], lanes.call_begins[order]


def _launches(ids: NDArray[np.int64], lanes: Lanes | None) -> _Launches:
    if lanes is None or not len(lanes.launch_id):
        none = np.zeros(len(ids), np.int64)
        return _Launches(np.full(len(ids), DEVICE_LANE, np.int32), none, none)
    slot = np.searchsorted(lanes.launch_id, ids).clip(max=len(lanes.launch_id) - 1)
    known = (lanes.launch_id[slot] == ids) & (ids != 0)
    return _Launches(
        np.where(known, lanes.launch_lane[slot], DEVICE_LANE).astype(np.int32),
        lanes.launch_start_ps[slot],
        lanes.launch_end_ps[slot],
    )


def _shift_ps(kernels: pd.DataFrame, copies: pd.DataFrame, lanes: Lanes | None) -> int:
    """Return by how much devices' clocks are early.

    Single events prove nothing: their ids may be those of others.
    """
    launches = _launches(np.concatenate([_ids(kernels), _ids(copies)]), lanes)
    starts = np.concatenate([c["start_ps"].to_numpy(np.int64) for c in (kernels, copies)])
    known = launches.lane != DEVICE_LANE
    if not known.any():
        return 0
    late = np.sort(starts[known] - launches.start_ps[known])
    return max(0, -int(late[int(len(late) * _TOO_EARLY_SHARE)]))


def _extent(
    tables: HostTables, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[int, int]:
    steps = tables.steps
    first, last = int(starts.min()), int(ends[-1])
    if len(steps):
        first = min(first, int(steps["start_ps"].min()))
        last = max(last, int((steps["start_ps"] + steps["duration_ps"]).max()))
    return first, last


def _program_lane(lanes: Lanes | None) -> int:
    """Return the program's thread that did most, -1 where none is known."""
    if lanes is None or not lanes.is_program.any():
        return DEVICE_LANE
    segments = np.where(lanes.is_program, np.diff(lanes.begin), -1)
    return int(segments.argmax())


def _blamed(tables: HostTables) -> NDArray[np.int32]:
    """Return the op that each copy is made for: its end on the host; -1 where none is known."""
    ops, copies = tables.ops, tables.copies
    on_host = np.isin(ops["placement"].astype(object).to_numpy(), _ON_THE_HOST)
    role = ops["role"].astype(object).to_numpy()
    counts = (on_host & (role == Role.COMPUTE)) | (role == Role.INPUT_PIPELINE)
    row_of = {op_id: k for k, op_id in enumerate(ops["op_id"].tolist()) if counts[k]}
    direction = copies["direction"].astype(object).to_numpy()
    blamed = np.full(len(copies), -1, np.int32)
    for end, way in (("producer", "h2d"), ("consumer", "d2h")):
        ids = copies[end].astype("category")
        rows = np.array([row_of.get(i, -1) for i in ids.cat.categories] + [-1], np.int32)
        blamed = np.where(direction == way, rows[ids.cat.codes.to_numpy()], blamed)
    return blamed.astype(np.int32)


def _ids(table: pd.DataFrame) -> NDArray[np.int64]:
    ids: NDArray[np.int64] = table["correlation_id"].to_numpy(np.int64)
    return ids


def _durations(table: pd.DataFrame) -> NDArray[np.int64]:
    return np.asarray(table["duration_ps"].astype("Int64").fillna(0), np.int64)


def _ends(table: pd.DataFrame) -> NDArray[np.int64]:
    ends: NDArray[np.int64] = table["start_ps"].to_numpy(np.int64) + _durations(table).clip(0)
    return ends
