"""Where the time of devices and steps went, in the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.model.times import CriticalPath, DeviceTimeline, PathOp, PhaseTime, Timeline
from traceanalyzer.report.convert import to_record
from traceanalyzer.tables.steps import regular_steps
from traceanalyzer.timeline.intervals import Intervals, union
from traceanalyzer.timeline.phase import PHASE_COLUMNS, Phase, overlap_share, phases_within
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pandas as pd

    from traceanalyzer.costs import Costs, HostPath
    from traceanalyzer.model import DeviceInfo
    from traceanalyzer.run import Host, Run
    from traceanalyzer.timeline.walk import Parts

_MAX_OPS: Final = 50
_RUNS: Final = ("compute", "copy")
_ORDER: Final = (
    Phase.COMPUTE, Phase.COPY, Phase.HOST_OP, Phase.UNPLACED, Phase.INPUT, Phase.LAUNCH,
    Phase.RUNTIME, Phase.PROGRAM, Phase.QUEUED, Phase.OTHER_DEVICE, Phase.UNATTRIBUTED,
)  # fmt: skip


def timeline(run: Run) -> Timeline | None:
    """Return where the time of each device went; None if nothing was recorded."""
    devices = [device for host in run.hosts for device in _of_host(host)]
    if not devices:
        return None
    computed = [
        next((p.share for p in d.phases if p.phase == "compute"), 0.0)
        for d in devices
        if d.device is not None
    ]
    several = len(computed) > 1
    return Timeline(
        devices=tuple(devices),
        busiest_share=max(computed) if several else None,
        idlest_share=min(computed) if several else None,
        shift_us=max((0, *(ps for h in run.hosts for ps in h.timeline.shifts_ps.values())))
        / PS_PER_US,
    )


def idle_share(times: Timeline | None, devices: Sequence[DeviceInfo]) -> float | None:
    """Return the idle share of the regular steps or, without steps, of the recording.

    It is the mean over the GPUs that ran kernels.
    """
    of_steps = [
        d for d in (times.devices if times else ()) if d.steps and "GPU" in (d.device or "")
    ]
    busy = [sum(p.share for p in d.phases if p.phase in _RUNS) for d in of_steps] or [
        d.busy_share for d in devices if d.kind == "gpu" and d.kernels and d.busy_share is not None
    ]
    return max(0.0, 1 - sum(busy) / len(busy)) if busy else None


def critical_paths(costs: Costs) -> tuple[CriticalPath, ...]:
    """Return the critical path through the regular steps of each host."""
    return tuple(_path(found) for found in costs.paths)


def _of_host(host: Host) -> Iterable[DeviceTimeline]:
    steps = regular_steps(host.tables.steps)

    def of(device: str | None, parts: Parts, overlap: float | None = None) -> DeviceTimeline:
        phases, total_us = _phases(parts, _within(steps, parts), max(1, len(steps)))
        return DeviceTimeline(
            host=host.name,
            device=device,
            steps=len(steps) or None,
            us_per_step=total_us,
            phases=phases,
            overlap_share=overlap,
        )

    for device in host.timeline.devices:
        shift_ps = host.timeline.shifts_ps[device.device]
        within = _within(steps, device.parts)
        overlap = overlap_share(host.tables, device, shift_ps, within)
        yield of(device.device, device.parts, overlap)
    if host.timeline.program is not None:
        yield of(None, host.timeline.program)


def _within(steps: pd.DataFrame, parts: Parts) -> Intervals:
    """Return the times of the steps; without any, of all that was recorded."""
    if steps.empty:
        return Intervals(parts.start_ps[:1], parts.end_ps[-1:])
    return union(steps["start_ps"].to_numpy(np.int64), steps["duration_ps"].to_numpy(np.int64))


def _phases(parts: Parts, within: Intervals, steps: int) -> tuple[tuple[PhaseTime, ...], float]:
    inside = phases_within(parts, within.start_ps, within.end_ps - within.start_ps).sum()
    return _shares({phase: int(inside[PHASE_COLUMNS[phase]]) for phase in _ORDER}, steps)


def _shares(took_ps: Mapping[Phase, int], steps: int) -> tuple[tuple[PhaseTime, ...], float]:
    """Return the phases that took any time, per step, and their sum in microseconds."""
    total = sum(took_ps.values())
    phases = tuple(
        PhaseTime(phase=phase.name.lower(), us=ps / steps / PS_PER_US, share=ps / total)
        for phase, ps in took_ps.items()
        if ps
    )
    return phases, total / steps / PS_PER_US


def _path(found: HostPath) -> CriticalPath:
    path, ops = found.path, found.host.tables.ops
    total = int(path.duration_ps.sum())
    took = {phase: int(path.duration_ps[path.phase == phase].sum()) for phase in _ORDER}
    phases, us_per_step = _shares(took, found.steps)
    is_known = path.is_proved & (path.phase != Phase.UNATTRIBUTED)
    of_row = found.of_row_ps
    rows = np.argsort(-of_row, kind="stable")
    rows = rows[of_row[rows] > 0]
    shown = ops.iloc[rows[:_MAX_OPS]][["op_id", "name", "type", "placement"]]
    return CriticalPath(
        host=found.host.name,
        steps=found.steps,
        us_per_step=us_per_step,
        proved_share=int(path.duration_ps[is_known].sum()) / total if total else 0.0,
        phases=phases,
        ops=tuple(
            to_record(PathOp, op, us_per_step=ps / found.steps / PS_PER_US, share=ps / total)
            for op, ps in zip(
                shown.astype(str).to_dict("records"), of_row[rows[:_MAX_OPS]].tolist(), strict=True
            )
        ),
        ops_total=len(rows),
    )
