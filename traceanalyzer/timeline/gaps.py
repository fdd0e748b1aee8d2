"""Groups the gaps of devices by cause.

In a gap, a device runs neither a kernel nor a transfer. Without devices, gaps are the waits of the
program's thread. Gaps form a group if the same op ran next and if most of their time was spent
waiting for the same op, or in the same phase. Only gaps in or between regular steps count. If there
are very many, only the longest count.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traceanalyzer.tables.host_tables import HostTables
from traceanalyzer.tables.steps import main_steps, regular_steps
from traceanalyzer.tables.thread_activity import ThreadState
from traceanalyzer.timeline.device_parts import DeviceWork, HostTimeline
from traceanalyzer.timeline.walk import Parts, Phase, program_segments

_LEAST_SHARE: Final = 0.1  # of a gap: shorter ops do not explain it
_MOST: Final = 20_000  # gaps of a device
_RUNS: Final = (Phase.COMPUTE, Phase.COPY)
_WAITS: Final = (ThreadState.WAIT, ThreadState.CALL)
# In place of the row of the op that ran next.
_TRANSFER, _NOTHING = -2, -3


@dataclass(frozen=True, kw_only=True)
class Gaps:
    """Gaps with the same cause."""

    device: str | None  # None for the program's own thread
    phase: Phase  # that took most of their time
    row: int  # of the op in the host's op table, -1 if no single op took much of it
    after: int  # event of the host's `DeviceWork` that ran next, -1 for none
    count: int
    steps: int  # how many steps have such gaps; 0 without steps
    total_ps: int
    longest_ps: tuple[int, int]  # start and end


def gaps_of(tables: HostTables, timeline: HostTimeline) -> list[Gaps]:
    """Return the gaps of a host's devices, grouped by cause, longest total time first."""
    found: list[Gaps] = []
    for number, device in enumerate(timeline.devices):
        parts = device.parts
        idle = ~np.isin(parts.phase, _RUNS)
        gaps = _merged(parts.start_ps[idle], parts.end_ps[idle])
        ended = _with_next(gaps, timeline.work, number)
        found += _alike(device.device, ended, parts, tables.steps)
    if timeline.program is not None:
        ended = _with_next(_waits(tables), None, 0)
        found += _alike(None, ended, timeline.program, tables.steps)
    return sorted(found, key=lambda gaps: -gaps.total_ps)


def _waits(tables: HostTables) -> pd.DataFrame:
    threads = tables.threads
    if threads is None:
        return _merged(np.empty(0, np.int64), np.empty(0, np.int64))
    own = program_segments(threads)
    waits = np.isin(threads.state[own], _WAITS)
    return _merged(threads.start_ps[own][waits], threads.end_ps[own][waits])


def _merged(start_ps: NDArray[np.int64], end_ps: NDArray[np.int64]) -> pd.DataFrame:
    """Merge adjacent intervals. If there are very many, keep only the longest."""
    is_first = np.append(True, start_ps[1:] > end_ps[:-1])[: len(start_ps)]
    is_last = np.append(is_first[1:], True)[: len(start_ps)]
    gaps = pd.DataFrame({"start_ps": start_ps[is_first], "end_ps": end_ps[is_last]})
    gaps["took_ps"] = gaps["end_ps"] - gaps["start_ps"]
    return gaps.nlargest(_MOST, "took_ps").sort_values("start_ps") if len(gaps) > _MOST else gaps


def _with_next(gaps: pd.DataFrame, work: DeviceWork | None, device: int) -> pd.DataFrame:
    """Add the event that ran next on a device (`after`), and the row of its op (`what`)."""
    if work is None:
        return gaps.assign(after=-1, what=_NOTHING)
    own = np.flatnonzero(work.device == device)
    event = own[np.argsort(work.start_ps[own], kind="stable")]
    what = np.where(work.is_transfer[event], _TRANSFER, work.row[event])
    place = np.searchsorted(work.start_ps[event], gaps["end_ps"])
    return gaps.assign(after=np.append(event, -1)[place], what=np.append(what, _NOTHING)[place])


def _alike(
    device: str | None, gaps: pd.DataFrame, parts: Parts, steps: pd.DataFrame
) -> Iterator[Gaps]:
    step, is_counted = _steps_at(steps, gaps["start_ps"].to_numpy())
    gaps = gaps.assign(step=step)[is_counted].reset_index(drop=True)
    gaps = gaps.join(_waited_for(gaps, parts))
    gaps = gaps.sort_values("took_ps", ascending=False, kind="stable")
    gaps["step"] = gaps["step"].where(gaps["step"] >= 0)
    found = (
        gaps[gaps["took_ps"] > 0]
        .groupby(["what", "row", "phase"], sort=False)
        .agg(
            after=("after", "first"),
            count=("took_ps", "size"),
            steps=("step", "nunique"),
            total_ps=("took_ps", "sum"),
            start_ps=("start_ps", "first"),  # of the longest
            end_ps=("end_ps", "first"),
        )
    )
    rows: list[dict[Any, Any]] = found.reset_index().drop(columns="what").to_dict("records")
    for row in rows:
        phase, longest = Phase(row.pop("phase")), (row.pop("start_ps"), row.pop("end_ps"))
        yield Gaps(device=device, phase=phase, longest_ps=longest, **row)


def _steps_at(
    steps: pd.DataFrame, at_ps: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the step at each time (-1 for none), and whether a gap that begins then counts."""
    ordered = main_steps(steps).sort_values("start_ps", kind="stable")
    if ordered.empty:
        return np.full(len(at_ps), -1), np.ones(len(at_ps), np.bool_)
    start = ordered["start_ps"].to_numpy(np.int64)
    end = start + ordered["duration_ps"].to_numpy(np.int64)
    step = np.searchsorted(start, at_ps, side="right") - 1
    step = np.where((step >= 0) & (at_ps < end[step]), step, -1)
    regular = regular_steps(steps)
    first = regular["start_ps"].min()
    last = (regular["start_ps"] + regular["duration_ps"]).max()
    is_regular = np.append(ordered.index.isin(regular.index), True)
    return step, is_regular[step] & (at_ps >= first) & (at_ps < last)


def _waited_for(gaps: pd.DataFrame, parts: Parts) -> pd.DataFrame:
    """Return each gap's longest phase, and the row of the op that took most of it, or -1."""
    starts, ends = (gaps[name].to_numpy(np.int64) for name in ("start_ps", "end_ps"))
    middle = parts.start_ps + parts.duration_ps // 2
    gap = np.searchsorted(starts, middle, side="right") - 1
    inside = (gap >= 0) & (middle < np.append(ends, 0)[gap])
    gap = gap[inside]
    pieces = pd.DataFrame({"gap": gap, "phase": parts.phase[inside], "row": parts.row[inside]})
    pieces["took_ps"] = np.minimum(parts.end_ps[inside], ends[gap]) - np.maximum(
        parts.start_ps[inside], starts[gap]
    )
    phase = _longest(pieces, "phase", len(gaps))["phase"].fillna(int(Phase.UNATTRIBUTED))
    of_op = pieces[(pieces["row"] >= 0) & (pieces["phase"] == phase.to_numpy()[pieces["gap"]])]
    op = _longest(of_op, "row", len(gaps))
    is_most = op["took_ps"] >= _LEAST_SHARE * gaps["took_ps"]
    return pd.DataFrame(
        {"phase": phase.astype(int), "row": op["row"].where(is_most, -1).astype(int)}
    )


def _longest(pieces: pd.DataFrame, what: str, gaps: int) -> pd.DataFrame:
    """Return the value of `what` with the most time in each gap (null if none), and that time."""
    sums = pieces.groupby(["gap", what])["took_ps"].sum().reset_index()
    longest = sums.sort_values("took_ps", kind="stable").drop_duplicates("gap", keep="last")
    return longest.set_index("gap").reindex(range(gaps))
