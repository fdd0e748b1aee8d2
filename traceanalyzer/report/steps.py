"""Where the time went: the steps, the parts of each step, and the critical path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traceanalyzer.costs import Costs, HostPath
from traceanalyzer.model import DeviceInfo
from traceanalyzer.model import figures as m
from traceanalyzer.model.blocks import Target
from traceanalyzer.native.events import sum_by
from traceanalyzer.report.records import to_record
from traceanalyzer.report.text import capital, word
from traceanalyzer.run import Host, Run, once_per_run
from traceanalyzer.tables.steps import (
    OUTLIER,
    PARTIAL,
    REGULAR,
    WARM_UP,
    main_steps,
    regular_steps,
)
from traceanalyzer.timeline.device_parts import DeviceParts, overlap_share
from traceanalyzer.timeline.intervals import inside_ps, union
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


# --- the parts of a step ---------------------------------------------------------------------


#: The phases of a device in each part of a step, in the order in which parts are shown.
PARTS: Final[dict[m.StepPart, tuple[Phase, ...]]] = {
    "compute": (Phase.COMPUTE,),
    "transfer": (Phase.COPY,),
    "cpu_op": (Phase.HOST_OP,),
    "unplaced": (Phase.UNPLACED,),
    "input": (Phase.INPUT,),
    "launch": (Phase.LAUNCH, Phase.QUEUED),
    "runtime": (Phase.RUNTIME,),
    "program": (Phase.PROGRAM,),
    "other_device": (Phase.OTHER_DEVICE,),
    "unknown": (Phase.UNATTRIBUTED,),
}


def part_label(kind: m.StepPart) -> str:
    """Return the name of a part of a step, with a capital."""
    return capital(word("part", kind))


@dataclass(frozen=True, eq=False, kw_only=True)
class DeviceSteps:
    """How one device spent the steps of its host, by start; without steps, the whole recording."""

    host: str
    device: str | None  # None for the program's thread, if no device ran kernels
    has_steps: bool
    number: tuple[str, ...]
    regular: NDArray[np.bool_]  # the steps that count in figures: all, if none is regular
    start_us: NDArray[np.float64]  # from the run's first event
    duration_us: NDArray[np.float64]
    took_us: dict[m.StepPart, NDArray[np.float64]]  # by part; they add up to the durations
    waits_us: pd.Series[float] | None  # per step, for each op of the host; by op id
    overlap_share: float | None  # of host op and copy time: the part during a kernel

    @property
    def step_us(self) -> float:
        """The mean duration of the regular steps."""
        return float(self.duration_us[self.regular].mean())

    def mean_us(self) -> dict[m.StepPart, float]:
        """Return the mean parts of a regular step; they add up to `step_us`."""
        means = {kind: float(took[self.regular].mean()) for kind, took in self.took_us.items()}
        return {kind: us for kind, us in means.items() if us > 0}

    def typical_step(self) -> Target:
        """Return the timeline link of the step that is closest to the mean; "" without steps."""
        if not self.has_steps:
            return ""
        distance = np.where(self.regular, abs(self.duration_us - self.step_us), np.inf)
        return self.targets()[int(distance.argmin())]

    def targets(self) -> list[Target]:
        """Return the timeline link of each step."""
        spans = zip(self.start_us, self.start_us + self.duration_us, strict=True)
        return [f"time-{begin:.3f}-{end:.3f}" for begin, end in spans]


@once_per_run
def step_parts(run: Run) -> tuple[DeviceSteps, ...]:
    """Return the steps of each device that ran kernels; if none did, of each program's thread."""
    origin_ps = min((host.start_ps for host in run.hosts), default=0)
    found = [
        steps
        for host in run.hosts
        for device in (*host.timeline.devices, None)
        if (steps := _device_steps(host, device, origin_ps)) and steps.duration_us.any()
    ]
    return tuple([steps for steps in found if steps.device is not None] or found)


def _device_steps(host: Host, device: DeviceParts | None, origin_ps: int) -> DeviceSteps | None:
    parts = host.timeline.program if device is None else device.parts
    if parts is None:
        return None
    steps = main_steps(host.tables.steps).sort_values("start_ps", kind="stable")
    start_ps, duration_ps = parts.start_ps[:1], parts.end_ps[-1:] - parts.start_ps[:1]
    number, regular = [""], np.ones(1, np.bool_)
    if not steps.empty:
        start_ps = steps["start_ps"].to_numpy(np.int64)
        duration_ps = steps["duration_ps"].to_numpy(np.int64).clip(0)
        number = steps["step"].tolist()
        regular = steps.index.isin(regular_steps(steps).index)
    took = parts.within(start_ps, duration_ps)
    by_part = {k: took[[*phases]].to_numpy(np.int64).sum(axis=1) for k, phases in PARTS.items()}
    by_part["unknown"] += (duration_ps - sum(by_part.values())).clip(0)
    within = union(start_ps[regular], duration_ps[regular])
    waits_us, overlap = None, None
    if device is not None:
        inside = inside_ps(within, parts.start_ps, parts.end_ps)[parts.is_exposed]
        ops, rows = host.tables.ops["op_id"], parts.row[parts.is_exposed].astype(np.int64)
        per_step = sum_by(rows, inside, len(ops)) / int(regular.sum()) / PS_PER_US
        waits_us = pd.Series(per_step, index=ops.to_numpy())
        shift_ps = host.timeline.shifts_ps[device.device]
        overlap = overlap_share(host.tables, device, shift_ps, within)
    return DeviceSteps(
        host=host.name,
        device=None if device is None else device.device,
        has_steps=not steps.empty,
        number=tuple(map(str, number)),
        regular=regular,
        start_us=(start_ps - origin_ps) / PS_PER_US,
        duration_us=duration_ps / PS_PER_US,
        took_us={kind: ps / PS_PER_US for kind, ps in by_part.items() if ps.any()},
        waits_us=waits_us,
        overlap_share=overlap,
    )


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
