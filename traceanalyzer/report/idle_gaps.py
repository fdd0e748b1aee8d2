"""The longest idle intervals of devices, and what they waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from traceanalyzer.model.times import IdleGap
from traceanalyzer.report.text import copy_words, op_label
from traceanalyzer.tables.step_kinds import main_steps
from traceanalyzer.tables.thread_activity import ThreadState
from traceanalyzer.tables.thread_links import ON_DEVICE
from traceanalyzer.timeline.phase import Phase
from traceanalyzer.timeline.walk import program_thread
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from traceanalyzer.run import Host, Run
    from traceanalyzer.timeline.device_work import DeviceWork
    from traceanalyzer.timeline.walk import Parts

_MAX_GAPS: Final = 50
_LEAST_SHARE: Final = 0.1  # of a gap: an op that took less does not explain it
_RUNS: Final = (Phase.COMPUTE, Phase.COPY)
_WAITS: Final = (ThreadState.WAIT, ThreadState.CALL)


class _Found(NamedTuple):
    """A gap: its device, when it was, and what the device did."""

    host: Host
    device: int  # among those of the host that ran kernels, -1 for the program
    start_ps: int
    end_ps: int
    parts: Parts


def idle_gaps(
    run: Run, origin_ps: int, finding_of: Mapping[str, str]
) -> tuple[tuple[IdleGap, ...], int]:
    """Return the largest gaps, and how many there are; `finding_of` maps ops to findings."""
    found: list[_Found] = []
    total = 0
    for host in run.hosts:
        for number, device in enumerate(host.timeline.devices):
            start, end = _idle(device.parts)
            total += len(start)
            found += _largest(host, number, start, end, device.parts)
        program = host.timeline.program
        if program is not None:
            start, end = _waiting(host)
            total += len(start)
            found += _largest(host, -1, start, end, program)
    found = sorted(found, key=lambda gap: gap.start_ps - gap.end_ps)[:_MAX_GAPS]
    ran = _ordered(found)
    steps = {host.name: _steps(host) for host in run.hosts}
    gaps = []
    for gap in found:
        around = _around(gap, ran.get((gap.host.name, gap.device)))
        step = _step_at(steps[gap.host.name], gap.start_ps)
        gaps.append(_gap(gap, origin_ps, finding_of, step, around))
    return tuple(gaps), total


def _idle(parts: Parts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    idle = ~np.isin(parts.phase, _RUNS)
    return _runs_of(parts.start_ps[idle], parts.end_ps[idle])


def _waiting(host: Host) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the intervals in which the program's thread waited for others."""
    threads = host.tables.threads
    thread = program_thread(threads)
    if threads is None or thread == ON_DEVICE:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    own = slice(int(threads.begin[thread]), int(threads.begin[thread + 1]))
    waits = np.isin(threads.state[own], _WAITS)
    return _runs_of(threads.start_ps[own][waits], threads.end_ps[own][waits])


def _runs_of(
    start: NDArray[np.int64], end: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return intervals, adjacent ones merged; they are in order of time."""
    if not len(start):
        return start, end
    is_first = np.concatenate([[True], start[1:] > end[:-1]])
    first = np.flatnonzero(is_first)
    last = np.append(first[1:], len(start)) - 1
    return start[first], end[last]


def _largest(
    host: Host, device: int, start: NDArray[np.int64], end: NDArray[np.int64], parts: Parts
) -> Iterator[_Found]:
    took = end - start
    largest = np.argsort(-took, kind="stable")[:_MAX_GAPS]
    for k in largest[took[largest] > 0].tolist():
        yield _Found(host, device, int(start[k]), int(end[k]), parts)


def _gap(
    gap: _Found,
    origin_ps: int,
    finding_of: Mapping[str, str],
    step: str | None,
    around: tuple[str | None, str | None],
) -> IdleGap:
    host, ops = gap.host, gap.host.tables.ops
    wait = _waited_for(gap)
    row = wait.row
    op_id = None if row < 0 else str(ops["op_id"].iloc[row])
    return IdleGap(
        host=host.name,
        device=None if gap.device < 0 else host.timeline.devices[gap.device].device,
        start_us=max(0, gap.start_ps - origin_ps) / PS_PER_US,
        duration_us=(gap.end_ps - gap.start_ps) / PS_PER_US,
        step=step,
        phase=wait.phase,
        phase_us=wait.phase_ps / PS_PER_US,
        op_id=op_id,
        op=None if row < 0 else _op_name(host, row),
        op_us=None if row < 0 else wait.op_ps / PS_PER_US,
        finding_id=None if op_id is None else finding_of.get(op_id),
        before=around[0],
        after=around[1],
    )


class _Wait(NamedTuple):
    """What a gap waited for: a phase, and the row of an op, or -1."""

    phase: str | None = None
    phase_ps: int = 0
    row: int = -1
    op_ps: int = 0


def _waited_for(gap: _Found) -> _Wait:
    """Return the longest phase of a gap, and the op that took most of it."""
    parts = gap.parts
    low = int(np.searchsorted(parts.end_ps, gap.start_ps, side="right"))
    high = int(np.searchsorted(parts.start_ps, gap.end_ps))
    if low >= high:
        return _Wait()
    took = np.minimum(parts.end_ps[low:high], gap.end_ps)
    took = took - np.maximum(parts.start_ps[low:high], gap.start_ps)
    by_phase = np.bincount(parts.phase[low:high], took, max(Phase) + 1)
    phase = int(by_phase.argmax())
    found = _Wait(Phase(phase).name.lower(), int(by_phase[phase]))
    # The op is one of that phase: ops of other phases explain less of the gap.
    named = (parts.row[low:high] >= 0) & (parts.phase[low:high] == phase)
    if not named.any():
        return found
    rows, code = np.unique(parts.row[low:high][named], return_inverse=True)
    by_row = np.bincount(code, took[named])
    longest = int(by_row.argmax())
    if by_row[longest] < _LEAST_SHARE * (gap.end_ps - gap.start_ps):
        return found
    return found._replace(row=int(rows[longest]), op_ps=int(by_row[longest]))


class _Steps(NamedTuple):
    """The main steps of a host, by start."""

    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    label: list[str]


def _steps(host: Host) -> _Steps:
    steps = main_steps(host.tables.steps).sort_values("start_ps", kind="stable")
    start = steps["start_ps"].to_numpy(np.int64)
    end = start + steps["duration_ps"].to_numpy(np.int64)
    pairs = zip(steps["name"].astype(str), steps["step"], strict=True)
    return _Steps(start, end, [f"{name} {number}" for name, number in pairs])


def _step_at(steps: _Steps, at_ps: int) -> str | None:
    """Return the label of the step at a moment; of overlapping steps, the last that began."""
    last = int(np.searchsorted(steps.start_ps, at_ps, side="right")) - 1
    return steps.label[last] if last >= 0 and at_ps < steps.end_ps[last] else None


class _Work(NamedTuple):
    """What ran on a device, in two orders; indices into the host's device work."""

    by_start: NDArray[np.int64]
    start_ps: NDArray[np.int64]
    by_end: NDArray[np.int64]
    end_ps: NDArray[np.int64]


def _ordered(gaps: list[_Found]) -> dict[tuple[str, int], _Work]:
    found = {}
    for host, device in {(gap.host, gap.device) for gap in gaps}:
        work = host.timeline.work
        if work is None or device < 0:
            continue
        own = np.flatnonzero(work.device == device)
        by_start = own[np.argsort(work.start_ps[own], kind="stable")]
        by_end = own[np.argsort(work.end_ps[own], kind="stable")]
        found[host.name, device] = _Work(
            by_start, work.start_ps[by_start], by_end, work.end_ps[by_end]
        )
    return found


def _around(gap: _Found, ran: _Work | None) -> tuple[str | None, str | None]:
    """Name what ran before a gap of a device, and after."""
    work = gap.host.timeline.work
    if ran is None or work is None:
        return None, None
    ended = int(np.searchsorted(ran.end_ps, gap.start_ps, side="right")) - 1
    began = int(np.searchsorted(ran.start_ps, gap.end_ps))
    before = None if ended < 0 else _device_event(gap.host, work, int(ran.by_end[ended]))
    if began == len(ran.by_start):
        return before, None
    return before, _device_event(gap.host, work, int(ran.by_start[began]))


def _device_event(host: Host, work: DeviceWork, event: int) -> str:
    transfer, row = int(work.transfer[event]), int(work.row[event])
    if transfer >= 0:
        direction = str(host.tables.transfers["direction"].iloc[transfer])
        return copy_words(direction)
    return _op_name(host, row) if row >= 0 else str(host.tables.kernels["name"].iloc[event])


def _op_name(host: Host, row: int) -> str:
    op = host.tables.ops.iloc[row]
    return op_label(str(op["name"]), str(op["type"]))
