"""Where the time went: the steps, the parts of each step, and the critical path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from traceanalyzer.costs import Costs, HostPath
from traceanalyzer.model import DeviceInfo
from traceanalyzer.model import figures as m
from traceanalyzer.report.records import to_record
from traceanalyzer.report.text import capital, word
from traceanalyzer.run import Run, once_per_run
from traceanalyzer.step_parts import PARTS, step_parts
from traceanalyzer.tables.steps import (
    OUTLIER,
    PARTIAL,
    REGULAR,
    WARM_UP,
    main_steps,
)
from traceanalyzer.timeline.walk import Phase
from traceanalyzer.units import PS_PER_US

_LEFT_OUT: Final = {
    WARM_UP: "warming up at the start",
    OUTLIER: "far from the median",
    PARTIAL: "recorded only in part",
}
_MAX_OPS: Final = 50  # of a critical path


@once_per_run
def steps_of(run: Run) -> m.Steps:
    """Summarize the steps of the kind that took most time, e.g. training, not evaluation."""
    if run.steps.empty:
        note = "the trace marks no steps, and nothing in it repeats exactly"
        return m.Steps(source="missing", note=note, count=0)
    rows = main_steps(run.steps)
    kind, is_inferred = rows["kind"].astype(str), bool(rows["is_inferred"].all())
    took_us = rows["duration_ps"].to_numpy(np.float64)[kind == REGULAR] / PS_PER_US
    # All hosts run the same steps.
    of_one = kind[rows["host"] == rows.groupby("host", observed=True).size().idxmax()]
    kinds = m.StepKinds(**{k: int((of_one == k).sum()) for k in (REGULAR, *_LEFT_OUT)})
    name, sources = rows["name"].iloc[0], ", ".join(sorted(set(rows["source"].astype(str))))
    note = f"marked {name} ({sources})"
    if is_inferred:
        note = f"the trace marks no steps; inferred from {sources}: {name}"
    excluded = ", ".join(left_out(kinds))
    return m.Steps(
        source="inferred" if is_inferred else "markers",
        note=f"{note}; left out of the figures: {excluded}" if excluded else note,
        count=len(of_one),
        kinds=kinds,
        median_us=float(np.median(took_us)) if len(took_us) else None,
        p95_us=float(np.percentile(took_us, 95)) if len(took_us) else None,
    )


def left_out(kinds: m.StepKinds) -> list[str]:
    """Name the steps that are excluded from the figures."""
    numbers = {words: getattr(kinds, kind) for kind, words in _LEFT_OUT.items()}
    return [f"{number:,} {words}" for words, number in numbers.items() if number]


def part_label(kind: m.StepPart) -> str:
    """Return the name of a part of a step, with a capital."""
    return capital(word("part", kind))


# --- devices and the critical path, as data ------------------------------------------------------


def timeline(run: Run) -> m.Timeline | None:
    """Return where the time of each device went; None if nothing was recorded."""
    found = step_parts(run)
    if not found:
        return None
    devices = tuple(
        to_record(
            m.DeviceTimeline,
            steps,
            steps=int(steps.regular.sum()) if steps.has_steps else None,
            us_per_step=steps.step_us,
            phases=_phases(steps.mean_us()),
        )
        for steps in found
    )
    computed = [_share(d, "compute") for d in devices if d.device is not None]
    several = len(computed) > 1
    return m.Timeline(
        devices=devices,
        busiest_share=max(computed) if several else None,
        idlest_share=min(computed) if several else None,
        shift_us=shift_us(run),
    )


def _phases(took_us: Mapping[m.StepPart, float]) -> tuple[m.PhaseTime, ...]:
    total = sum(took_us.values())
    return tuple(m.PhaseTime(phase=k, us=us, share=us / total) for k, us in took_us.items() if us)


def _share(device: m.DeviceTimeline, *phases: m.StepPart) -> float:
    return sum(phase.share for phase in device.phases if phase.phase in phases)


def shift_us(run: Run) -> float:
    """Return the largest shift of a device's times that lets every launch precede its kernel."""
    shifts = (ps for host in run.hosts for ps in host.timeline.shifts_ps.values())
    return max((0, *shifts)) / PS_PER_US


def idle_share(times: m.Timeline | None, devices: Sequence[DeviceInfo]) -> float | None:
    """Return the mean idle share of the GPUs that ran kernels, over regular steps if known."""
    of_steps = [d for d in (times.devices if times else ()) if d.steps and "GPU" in str(d.device)]
    busy = [_share(device, "compute", "transfer") for device in of_steps] or [
        d.busy_share for d in devices if d.kind == "gpu" and d.kernels and d.busy_share is not None
    ]
    return max(0.0, 1 - sum(busy) / len(busy)) if busy else None


def critical_paths(costs: Costs) -> tuple[m.CriticalPath, ...]:
    """Return the critical path through the regular steps of each host."""
    return tuple(map(_path, costs.paths))


def _path(found: HostPath) -> m.CriticalPath:
    path, per_step_ps = found.path, found.steps * PS_PER_US
    total = int(path.duration_ps.sum())
    took_us = {
        kind: int(path.duration_ps[np.isin(path.phase, phases)].sum()) / per_step_ps
        for kind, phases in PARTS.items()
    }
    is_known = path.is_proved & (path.phase != Phase.UNATTRIBUTED)
    ops = found.host.tables.ops[["op_id", "name", "type", "placement"]].assign(ps=found.of_row_ps)
    ops = ops[ops["ps"] > 0].sort_values("ps", ascending=False, kind="stable")
    return to_record(
        m.CriticalPath,
        found,
        host=found.host.name,
        us_per_step=total / per_step_ps,
        proved_share=int(path.duration_ps[is_known].sum()) / total if total else 0.0,
        phases=_phases(took_us),
        ops=tuple(
            to_record(m.PathOp, op, us_per_step=op["ps"] / per_step_ps, share=op["ps"] / total)
            for op in ops.head(_MAX_OPS).to_dict("records")
        ),
        ops_total=len(ops),
    )
