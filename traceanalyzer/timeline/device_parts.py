"""Finds the activity of each device and, when it was idle, the cause of its wait.

A device's time is cut into consecutive parts of one phase each. While a kernel ran, the device
computed. While only a transfer ran, the device waited for the transfer. The rest is idle time. For
each gap, a walk (`walk`) goes back in time from the event that ended the gap. The device waited for
the events on that walk, not for events that merely ran at the same time.

An op's *exposed* time is the idle time in which the walk passes through the op, plus the time in
which only a transfer for the op ran. So the exposed times of all ops add up to at most the time in
which no kernel ran. If a host has several devices, the mean is used. Waits for a compute op of
unknown placement do not count, as it may have run on the device. Waits for input always count.

The profiler aligns the clocks of host and devices, but not exactly. If work begins before its
launch, the times of that device are shifted (`shifts_ps`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traceanalyzer.native.events import sum_by
from traceanalyzer.tables.host_tables import HostTables
from traceanalyzer.tables.thread_activity import ON_DEVICE, Launches, ThreadActivity, ThreadState
from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.timeline.intervals import Intervals, common, durations, union
from traceanalyzer.timeline.walk import (
    Parts,
    Phase,
    Spans,
    busy_and_idle,
    program_segments,
    program_thread,
    walk_back,
)

_ON_THE_HOST: Final = ("cpu", "host_memory")


@dataclass(frozen=True, eq=False, kw_only=True)
class DeviceWork:
    """The kernels of a host's devices, followed by the transfers."""

    devices: tuple[str, ...]  #: names of the devices that ran kernels
    device: NDArray[np.int16]  #: index into `devices`, -1 for another
    stream: NDArray[np.int32]  #: number of the stream, unique over all devices
    start_ps: NDArray[np.int64]  #: on the host's clock
    end_ps: NDArray[np.int64]
    #: Row of the op table: a kernel's op, or the host op that needs a transfer; -1 if unknown.
    row: NDArray[np.int32]
    transfer: NDArray[np.int64]  #: row of the host's transfer table, -1 for a kernel
    launches: Launches
    shifts_ps: Mapping[str, int]  #: the shift of each device's times

    @property
    def is_transfer(self) -> NDArray[np.bool_]:
        """A mask of the events that are transfers."""
        return self.transfer >= 0


@dataclass(frozen=True, eq=False, kw_only=True)
class DeviceParts:
    """The activity of one device, from its first event or step to its last."""

    device: str  #: name of its plane
    parts: Parts  #: on the host's clock


@dataclass(frozen=True, eq=False, kw_only=True)
class HostTimeline:
    """The activity of one host's devices, or of its program if no device ran kernels."""

    devices: tuple[DeviceParts, ...] = ()  #: those that ran kernels
    program: Parts | None = None  #: waits of the program's thread, if no device ran kernels
    work: DeviceWork | None = None  #: None if no device ran kernels

    @property
    def shifts_ps(self) -> Mapping[str, int]:
        """The shift of each device's times."""
        return {} if self.work is None else self.work.shifts_ps


def host_timeline(tables: HostTables) -> HostTimeline:
    """Split a host's device time into parts, or its program's time if no device ran kernels."""
    if tables.kernels.empty:
        return HostTimeline(program=_program_parts(tables))
    work = device_work(tables)
    devices = tuple(
        DeviceParts(device=name, parts=_device_parts(number, tables, work))
        for number, name in enumerate(work.devices)
    )
    return HostTimeline(devices=devices, work=work)


def with_exposed(tables: HostTables, timeline: HostTimeline) -> HostTables:
    """Return a host's tables with the exposed time of ops and transfers.

    Exposed times are null if no device ran kernels, and for compute ops of unknown placement.
    """
    devices, ops, transfers = timeline.devices, tables.ops, tables.transfers
    if not devices:
        return tables
    of_ops = np.zeros(len(ops), np.int64)
    of_transfers = np.zeros(len(transfers), np.int64)
    for device in devices:
        parts = device.parts
        row = np.where(parts.is_exposed, parts.row, -1).astype(np.int64)
        of_ops += sum_by(row, parts.duration_ps, len(of_ops))
        of_transfers += sum_by(parts.transfer, parts.duration_ps, len(of_transfers))
    is_unplaced = ((ops["placement"] == "unknown") & (ops["role"] == Role.COMPUTE)).to_numpy(bool)
    is_elsewhere = ~transfers["device"].isin([device.device for device in devices]).to_numpy()
    of_op = pd.arrays.IntegerArray(of_ops // len(devices), is_unplaced)
    of_transfer = pd.arrays.IntegerArray(of_transfers, is_elsewhere)
    return replace(
        tables, ops=ops.assign(exposed_ps=of_op), transfers=transfers.assign(exposed_ps=of_transfer)
    )


def _device_parts(device: int, tables: HostTables, work: DeviceWork) -> Parts:
    own = np.flatnonzero(work.device == device)
    ran, moved = own[~work.is_transfer[own]], own[work.is_transfer[own]]
    moved = moved[np.argsort(work.start_ps[moved], kind="stable")]
    busy = union(work.start_ps[ran], work.end_ps[ran] - work.start_ps[ran])
    from_ps, to_ps = _extent(tables.steps, work.start_ps[own], work.end_ps)
    start, end, phase, transfer = busy_and_idle(
        busy, (work.start_ps[moved], work.end_ps[moved]), (from_ps, to_ps)
    )
    gap = phase == Phase.UNATTRIBUTED
    spans = Spans(start[gap], end[gap], _ended_by(end[gap], own, work, tables.threads))
    walked = walk_back(spans, tables.threads, work)
    event = np.append(moved, -1)[transfer[~gap]]  # of the host's device work
    return Parts(
        start_ps=np.concatenate([start[~gap], walked.start_ps]),
        end_ps=np.concatenate([end[~gap], walked.end_ps]),
        phase=np.concatenate([phase[~gap], walked.phase]),
        row=np.concatenate([np.where(event >= 0, work.row[event], -1), walked.row]),
        other=np.concatenate([phase[~gap], walked.other]),
        transfer=np.concatenate([np.where(event >= 0, work.transfer[event], -1), walked.transfer]),
    ).by_time()


def _ended_by(
    end_ps: NDArray[np.int64],
    own: NDArray[np.int64],
    work: DeviceWork,
    threads: ThreadActivity | None,
) -> Launches:
    """Return the launch of the event that ended each gap of a device. On a tie, use the latest.

    After the device's last event, the walk follows the program's thread instead.
    """
    launches = work.launches.take(own)
    order = np.lexsort((-launches.start_ps, work.start_ps[own]))
    slot = np.searchsorted(work.start_ps[own][order], end_ps)
    is_followed = slot < len(own)
    found = launches.take(order[slot.clip(max=len(own) - 1)])
    thread = np.where(is_followed, found.thread, program_thread(threads)).astype(np.int32)
    return Launches(
        thread,
        np.where(is_followed, found.start_ps, end_ps),
        np.where(is_followed, found.end_ps, end_ps),
    )


def _program_parts(tables: HostTables) -> Parts | None:
    threads = tables.threads
    thread, own = program_thread(threads), program_segments(threads)
    if threads is None or own.start == own.stop:
        return None
    starts = tables.steps["start_ps"].to_numpy(np.int64)
    # Each step separately: the walk does not continue into the previous step.
    extent = [threads.start_ps[own].min(), threads.end_ps[own].max()]
    bounds = np.unique(np.concatenate([extent, starts, starts + durations(tables.steps)]))
    start, end = bounds[:-1], bounds[1:]
    launch = Launches(np.full(len(start), thread, np.int32), end, end)
    return walk_back(Spans(start, end, launch), threads, None)


def _extent(
    steps: pd.DataFrame, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[int, int]:
    first, last = int(starts.min()), int(ends.max())
    if len(steps):
        first = min(first, int(steps["start_ps"].min()))
        last = max(last, int((steps["start_ps"] + steps["duration_ps"]).max()))
    return first, last


def overlap_share(
    tables: HostTables, device: DeviceParts, shift_ps: int, within: Intervals
) -> float | None:
    """Return the share of host work and transfer time during which the device computed.

    `shift_ps` is the shift of the device's times. Only times in `within`, such as steps, count.
    """
    threads, parts = tables.threads, device.parts
    own = tables.transfers[tables.transfers["device"] == device.device]
    starts, lasted = [own["start_ps"].to_numpy(np.int64) + shift_ps], [durations(own)]
    if threads is not None:
        busy = np.isin(threads.state, (ThreadState.HOST_OP, ThreadState.INPUT))
        starts.append(threads.start_ps[busy])
        lasted.append((threads.end_ps - threads.start_ps)[busy])
    beside = common(union(np.concatenate(starts), np.concatenate(lasted)), within)
    computes = parts.phase == Phase.COMPUTE
    kernels = union(parts.start_ps[computes], parts.duration_ps[computes])
    return common(beside, kernels).total_ps / beside.total_ps if beside.total_ps else None


# --- the work of devices --------------------------------------------------------------------------


def device_work(tables: HostTables) -> DeviceWork:
    """Collect the kernels and transfers of a host's devices."""
    kernels, threads = tables.kernels, tables.threads
    on_device = np.flatnonzero(tables.transfers["device"].notna())
    transfers = tables.transfers.iloc[on_device]
    device, every = _numbers(kernels["device"], transfers["device"])  # without kernels: last
    stream, streams = _numbers(kernels["stream"], transfers["stream"])
    computing = kernels["device"].nunique()
    shift_ps = np.zeros(len(device), np.int64) if threads is None else threads.early_ps
    shifts_ps = np.zeros(len(every), np.int64)
    shifts_ps[device] = shift_ps
    starts = [table["start_ps"].to_numpy(np.int64) for table in (kernels, transfers)]
    start_ps = np.concatenate(starts) + shift_ps
    took = np.concatenate([durations(kernels), durations(transfers)]).clip(0)
    of_kernel = _rows(kernels["op_id"], tables.ops)
    return DeviceWork(
        devices=tuple(every[:computing]),
        device=np.where(device < computing, device, -1).astype(np.int16),
        stream=(device * (len(streams) + 1) + stream + 1).astype(np.int32),
        start_ps=start_ps,
        end_ps=start_ps + took,
        row=np.concatenate([of_kernel, _blamed(transfers, tables.ops)]),
        transfer=np.concatenate([np.full(len(kernels), -1), on_device]),
        launches=Launches(np.full(len(device), ON_DEVICE, np.int32), shift_ps, shift_ps)
        if threads is None
        else threads.launches,
        shifts_ps=dict(zip(every, shifts_ps.tolist(), strict=True)),
    )


def _numbers(*columns: pd.Series[str]) -> tuple[NDArray[np.int64], list[str]]:
    """Number the texts in some columns, with -1 for null. Return the numbers and the texts."""
    parts = [pd.Categorical(column) for column in columns]
    # The categories need one dtype to be joined; pandas may infer different ones.
    parts = [pd.Categorical.from_codes(p.codes, p.categories.astype(object)) for p in parts]
    codes, texts = pd.factorize(pd.api.types.union_categoricals(parts))
    return codes.astype(np.int64), [str(text) for text in texts]


def _rows(op_ids: pd.Series[str], ops: pd.DataFrame) -> NDArray[np.int32]:
    row_of = pd.Series(np.arange(len(ops)), ops["op_id"])
    ids = op_ids.astype("category")
    rows = row_of.reindex(ids.cat.categories, fill_value=-1).to_numpy()
    return np.append(rows, -1).astype(np.int32)[ids.cat.codes.to_numpy()]


def _blamed(transfers: pd.DataFrame, ops: pd.DataFrame) -> NDArray[np.int32]:
    """Return the row of the host op that needs each transfer, or -1 if unknown."""
    is_host_op = ops["placement"].isin(_ON_THE_HOST) & (ops["role"] == Role.COMPUTE)
    counts = np.append(is_host_op | (ops["role"] == Role.INPUT_PIPELINE), False)
    blamed = np.full(len(transfers), -1, np.int32)
    for end, towards in (("producer", "h2d"), ("consumer", "d2h")):
        rows = _rows(transfers[end], ops)
        chosen = (transfers["direction"] == towards).to_numpy() & counts[rows]
        blamed[chosen] = rows[chosen]
    return blamed
