"""The gaps of devices, those that waited for the same together.

In a gap a device runs neither a kernel nor a transfer. Without devices, gaps are the waits of the
program's own thread. Gaps are alike if most of their time waited for the same op, or for the same
other phase, and if the same op ran next. What lies outside the regular steps is left out, except
for gaps between two of them. Of very many gaps, the shortest are left out, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from traceanalyzer.tables.steps import REGULAR, main_steps, regular_steps
from traceanalyzer.tables.thread_activity import ON_DEVICE, ThreadState
from traceanalyzer.timeline.phase import Phase
from traceanalyzer.timeline.walk import program_thread

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    from numpy.typing import NDArray

    from traceanalyzer.tables.host_tables import HostTables
    from traceanalyzer.timeline.device_parts import HostTimeline
    from traceanalyzer.timeline.device_work import DeviceWork
    from traceanalyzer.timeline.walk import Parts

_LEAST_SHARE: Final = 0.1  # of a gap: an op that took less does not explain it
_MOST: Final = 20_000  # gaps of a device
_RUNS: Final = (Phase.COMPUTE, Phase.COPY)
_WAITS: Final = (ThreadState.WAIT, ThreadState.CALL)


@dataclass(frozen=True, kw_only=True)
class Gaps:
    """Gaps that are alike."""

    device: str | None  # None for the program's own thread
    phase: Phase  # that most of their time waited for
    row: int  # of the op in the host's op table, -1 if no single op took much of it
    after: int  # event of the host's `DeviceWork` that ran next, -1 for none
    count: int
    steps: int  # how many steps have such gaps; 0 without steps
    total_ps: int
    longest_ps: tuple[int, int]  # start and end


class _Found(NamedTuple):
    """All gaps of one device, by start."""

    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]


def gaps_of(tables: HostTables, timeline: HostTimeline) -> list[Gaps]:
    """Return the gaps of a host's devices, those that took most time first."""
    found: list[Gaps] = []
    work = timeline.work
    for number, device in enumerate(timeline.devices if work is not None else ()):
        idle = ~np.isin(device.parts.phase, _RUNS)
        gaps = _merged(device.parts.start_ps[idle], device.parts.end_ps[idle])
        found += _alike(device.device, gaps, device.parts, tables.steps, _Next.of(work, number))
    if timeline.program is not None:
        found += _alike(None, _waits(tables), timeline.program, tables.steps, _Next.none())
    return sorted(found, key=lambda gaps: -gaps.total_ps)


def _waits(tables: HostTables) -> _Found:
    """Return when the program's thread waited for others."""
    threads = tables.threads
    thread = program_thread(threads)
    if threads is None or thread == ON_DEVICE:
        return _Found(np.empty(0, np.int64), np.empty(0, np.int64))
    own = slice(int(threads.begin[thread]), int(threads.begin[thread + 1]))
    waits = np.isin(threads.state[own], _WAITS)
    return _merged(threads.start_ps[own][waits], threads.end_ps[own][waits])


def _merged(start_ps: NDArray[np.int64], end_ps: NDArray[np.int64]) -> _Found:
    """Return intervals, adjacent ones merged; they are in order of time."""
    if not len(start_ps):
        return _Found(start_ps, end_ps)
    first = np.flatnonzero(np.concatenate([[True], start_ps[1:] > end_ps[:-1]]))
    return _Found(start_ps[first], end_ps[np.append(first[1:], len(start_ps)) - 1])


class _Next(NamedTuple):
    """What ran on a device, by start: when, which event of `DeviceWork`, and what it is."""

    start_ps: NDArray[np.int64]
    event: NDArray[np.int64]
    what: NDArray[np.int64]  # row of its op, or a negative number for those without

    @classmethod
    def of(cls, work: DeviceWork | None, device: int) -> _Next:
        """Return the events of a device."""
        if work is None:
            return cls.none()
        own = np.flatnonzero(work.device == device)
        event = own[np.argsort(work.start_ps[own], kind="stable")]
        row = work.row[event].astype(np.int64)
        what = np.where(work.is_transfer[event], -2, row)
        return cls(work.start_ps[event], event, what)

    @classmethod
    def none(cls) -> _Next:
        """Return that nothing ran."""
        nothing = np.empty(0, np.int64)
        return cls(nothing, nothing, nothing)


def _alike(
    device: str | None, gaps: _Found, parts: Parts, steps: pd.DataFrame, following: _Next
) -> Iterator[Gaps]:
    if len(gaps.start_ps) > _MOST:
        longest = np.sort(np.argpartition(gaps.start_ps - gaps.end_ps, _MOST)[:_MOST])
        gaps = _Found(gaps.start_ps[longest], gaps.end_ps[longest])
    step, is_counted = _steps_at(steps, gaps.start_ps)
    gaps = _Found(gaps.start_ps[is_counted], gaps.end_ps[is_counted])
    step = step[is_counted]
    took = gaps.end_ps - gaps.start_ps
    if not took.any():
        return
    phase, row = _waited_for(gaps, parts)
    place = np.searchsorted(following.start_ps, gaps.end_ps)
    after = np.append(following.event, -1)[place]
    what = np.append(following.what, -3)[place]
    kinds, rows = max(Phase) + 1, int(row.max()) + 2
    _, group = np.unique(((what + 3) * rows + row + 1) * kinds + phase, return_inverse=True)
    order = np.lexsort((-took, group))
    first = order[np.flatnonzero(np.diff(group[order], prepend=-1))]  # the longest of each group
    width = int(step.max()) + 1
    in_steps = np.unique((group * width + step)[step >= 0]) // max(width, 1)
    steps_of = np.bincount(in_steps, minlength=len(first))
    count, total = np.bincount(group), np.bincount(group, took)
    for number, longest in enumerate(first.tolist()):
        if total[number] > 0:
            yield Gaps(
                device=device,
                phase=Phase(int(phase[longest])),
                row=int(row[longest]),
                after=int(after[longest]),
                count=int(count[number]),
                steps=int(steps_of[number]),
                total_ps=int(total[number]),
                longest_ps=(int(gaps.start_ps[longest]), int(gaps.end_ps[longest])),
            )


def _steps_at(
    steps: pd.DataFrame, at_ps: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the step at each moment (-1: none), and whether gaps from there on count."""
    ordered = main_steps(steps).sort_values("start_ps", kind="stable")
    if ordered.empty:
        return np.full(len(at_ps), -1), np.ones(len(at_ps), np.bool_)
    start = ordered["start_ps"].to_numpy(np.int64)
    end = start + ordered["duration_ps"].to_numpy(np.int64)
    step = np.searchsorted(start, at_ps, side="right") - 1
    step = np.where((step >= 0) & (at_ps < end[step]), step, -1)
    regular = regular_steps(steps)
    first, last = (
        regular["start_ps"].min(),
        (regular["start_ps"] + regular["duration_ps"]).max(),
    )
    is_regular = np.append((ordered["kind"].astype(str) == REGULAR).to_numpy(), True)
    if len(regular) == len(ordered):
        is_regular[:] = True
    return step, is_regular[step] & (at_ps >= first) & (at_ps < last)


def _waited_for(gaps: _Found, parts: Parts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the longest phase of each gap, and the row of the op that took most of that."""
    middle = parts.start_ps + parts.duration_ps // 2
    gap = np.searchsorted(gaps.start_ps, middle, side="right") - 1
    inside = (gap >= 0) & (middle < gaps.end_ps[gap])
    gap = gap[inside]
    start = np.maximum(parts.start_ps[inside], gaps.start_ps[gap])
    took = np.minimum(parts.end_ps[inside], gaps.end_ps[gap]) - start
    of_phase = parts.phase[inside].astype(np.int64)
    number = len(gaps.start_ps)
    phase, _ = _longest(gap, of_phase, took, number)
    phase = np.where(phase < 0, int(Phase.UNATTRIBUTED), phase)
    row = parts.row[inside].astype(np.int64)
    of_op = (row >= 0) & (of_phase == phase[gap])
    longest, its_ps = _longest(gap[of_op], row[of_op], took[of_op], number)
    is_most = its_ps >= _LEAST_SHARE * (gaps.end_ps - gaps.start_ps)
    return phase, np.where(is_most, longest, -1)


def _longest(
    gap: NDArray[np.int64], what: NDArray[np.int64], took: NDArray[np.int64], gaps: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return what took most of each gap (-1: nothing did), and how long."""
    width = int(what.max(initial=0)) + 1
    pair, code = np.unique(gap * width + what, return_inverse=True)
    sums = np.bincount(code, took, len(pair))
    order = np.lexsort((sums, pair // width))
    found, time = np.full(gaps, -1, np.int64), np.zeros(gaps)
    found[pair[order] // width] = pair[order] % width  # the longest is assigned last
    time[pair[order] // width] = sums[order]
    return found, time
