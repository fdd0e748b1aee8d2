"""Where the time went: the steps, the parts of each step, and the critical path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from traceanalyzer.model.blocks import Part
from traceanalyzer.model.figures import (
    CriticalPath,
    DeviceTimeline,
    PathOp,
    PhaseTime,
    StepKinds,
    Steps,
    Timeline,
)
from traceanalyzer.report.records import to_record
from traceanalyzer.tables.steps import (
    OUTLIER,
    PARTIAL,
    REGULAR,
    WARM_UP,
    main_steps,
    regular_steps,
)
from traceanalyzer.timeline.device_parts import overlap_share
from traceanalyzer.timeline.intervals import Intervals, union
from traceanalyzer.timeline.walk import Phase
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from traceanalyzer.costs import Costs, HostPath
    from traceanalyzer.model import DeviceInfo
    from traceanalyzer.model.figures import StepPart
    from traceanalyzer.run import Host, Run
    from traceanalyzer.timeline.walk import Parts

LEFT_OUT: Final = {
    WARM_UP: "warming up at the start",
    OUTLIER: "far from the median",
    PARTIAL: "recorded only in part",
}
"""The kinds of steps that are excluded from the figures."""

_MAX_OPS: Final = 50  # of a critical path


# --- steps -----------------------------------------------------------------------------------


def steps_of(run: Run) -> Steps:
    """Summarize the kind of step that took most time, e.g. training rather than evaluation."""
    if run.steps.empty:
        note = "the trace marks no steps, and nothing in it repeats exactly"
        return Steps(source="missing", note=note, count=0)
    rows = main_steps(run.steps)
    is_regular = (rows["kind"].astype(str) == REGULAR).to_numpy()
    took_us = rows["duration_ps"].to_numpy(np.float64)[is_regular] / PS_PER_US
    # All hosts run the same steps.
    busiest = rows.groupby("host", observed=True).size().idxmax()
    of_one = rows["kind"].astype(str)[rows["host"] == busiest].value_counts()
    kinds = {kind: int(of_one.get(kind, 0)) for kind in (REGULAR, *LEFT_OUT)}
    left_out = ", ".join(f"{kinds[k]:,} {words}" for k, words in LEFT_OUT.items() if kinds[k])
    origin = _origin(rows)
    note = f"{origin}; left out of the figures: {left_out}" if left_out else origin
    return Steps(
        source="inferred" if rows["is_inferred"].all() else "markers",
        note=note,
        count=int(of_one.sum()),
        kinds=StepKinds(**kinds),
        median_us=float(np.median(took_us)) if len(took_us) else None,
        p95_us=float(np.percentile(took_us, 95)) if len(took_us) else None,
    )


def _origin(rows: pd.DataFrame) -> str:
    name, sources = str(rows["name"].iloc[0]), ", ".join(sorted(set(rows["source"].astype(str))))
    if not rows["is_inferred"].all():
        return f"marked {name} ({sources})"
    return f"the trace marks no steps; inferred from {sources}: {name}"


# --- the parts of a step ---------------------------------------------------------------------


class PartOfStep(NamedTuple):
    """A part of a step: work of the device, or a reason to wait."""

    kind: StepPart
    label: str
    phases: tuple[Phase, ...]


#: In the order in which they are shown.
PARTS: Final = (
    PartOfStep("compute", "Compute", (Phase.COMPUTE,)),
    PartOfStep("transfer", "Transfers", (Phase.COPY,)),
    PartOfStep("cpu_op", "CPU ops", (Phase.HOST_OP,)),
    PartOfStep("unplaced", "Ops of unknown placement", (Phase.UNPLACED,)),
    PartOfStep("input", "Input", (Phase.INPUT,)),
    PartOfStep("launch", "Kernel launch", (Phase.LAUNCH, Phase.QUEUED)),
    PartOfStep("runtime", "TensorFlow runtime", (Phase.RUNTIME,)),
    PartOfStep("program", "Your program", (Phase.PROGRAM,)),
    PartOfStep("other_device", "Another device", (Phase.OTHER_DEVICE,)),
    PartOfStep("unknown", "Unknown", (Phase.UNATTRIBUTED,)),
)


@dataclass(frozen=True, eq=False, kw_only=True)
class DeviceSteps:
    """How one device spent the steps of its host, by start; without steps, the whole recording.

    The time before a device's first event and after its last is unknown.
    """

    host: str
    device: str | None  # None for the program's thread, if no device ran kernels
    has_steps: bool
    number: tuple[str, ...]
    kind: tuple[str, ...]  # "regular", "warm_up", "outlier", or "partial"
    start_us: NDArray[np.float64]  # from the run's first event
    duration_us: NDArray[np.float64]
    took_us: dict[StepPart, NDArray[np.float64]]  # by part; they add up to the durations

    @property
    def regular(self) -> NDArray[np.bool_]:
        """Which steps count in figures per step: the regular ones, or all if there are none."""
        found = np.array([kind == REGULAR for kind in self.kind])
        return found if found.any() else np.ones(len(found), np.bool_)

    @property
    def step_us(self) -> float:
        """The mean duration of the regular steps."""
        return float(self.duration_us[self.regular].mean())

    def mean_us(self) -> dict[StepPart, float]:
        """Return the mean parts of a regular step; they add up to `step_us`."""
        means = {kind: float(took[self.regular].mean()) for kind, took in self.took_us.items()}
        return {kind: us for kind, us in means.items() if us > 0}

    def parts(self) -> tuple[Part, ...]:
        """Return these parts as parts of a bar."""
        means = self.mean_us()
        return tuple(
            Part(kind=part.kind, label=part.label, value=means[part.kind])
            for part in PARTS
            if part.kind in means
        )


def step_parts(run: Run) -> tuple[DeviceSteps, ...]:
    """Return the steps of each device that computed; without one, of each program's thread."""
    origin_ps = min((host.start_ps for host in run.hosts), default=0)
    found = [
        steps
        for host in run.hosts
        for device, parts in _timelines(host)
        if (steps := _device_steps(host, device, parts, origin_ps)).duration_us.any()
    ]
    return tuple([steps for steps in found if steps.device is not None] or found)


def _timelines(host: Host) -> Iterator[tuple[str | None, Parts]]:
    yield from ((device.device, device.parts) for device in host.timeline.devices)
    if host.timeline.program is not None:
        yield None, host.timeline.program


def _device_steps(host: Host, device: str | None, parts: Parts, origin_ps: int) -> DeviceSteps:
    steps = main_steps(host.tables.steps).sort_values("start_ps", kind="stable")
    start_ps, duration_ps = parts.start_ps[:1], parts.end_ps[-1:] - parts.start_ps[:1]
    number, kind = [""], [REGULAR]
    if not steps.empty:
        start_ps = steps["start_ps"].to_numpy(np.int64)
        duration_ps = steps["duration_ps"].to_numpy(np.int64).clip(0)
        number, kind = steps["step"].tolist(), steps["kind"].tolist()
    took = parts.within(start_ps, duration_ps)
    by_part = {p.kind: took[list(p.phases)].to_numpy(np.int64).sum(axis=1) for p in PARTS}
    by_part["unknown"] += (duration_ps - sum(by_part.values())).clip(0)
    return DeviceSteps(
        host=host.name,
        device=device,
        has_steps=not steps.empty,
        number=tuple(map(str, number)),
        kind=tuple(map(str, kind)),
        start_us=(start_ps - origin_ps) / PS_PER_US,
        duration_us=duration_ps / PS_PER_US,
        took_us={kind: ps / PS_PER_US for kind, ps in by_part.items() if ps.any()},
    )


# --- devices and the critical path, as data ------------------------------------------------------


def timeline(run: Run) -> Timeline | None:
    """Return where the time of each device went; None if nothing was recorded."""
    hosts = {host.name: host for host in run.hosts}
    devices = [_device_timeline(hosts[steps.host], steps) for steps in step_parts(run)]
    if not devices:
        return None
    computed = [
        sum(p.share for p in d.phases if p.phase == "compute")
        for d in devices
        if d.device is not None
    ]
    several = len(computed) > 1
    return Timeline(
        devices=tuple(devices),
        busiest_share=max(computed) if several else None,
        idlest_share=min(computed) if several else None,
        shift_us=shift_us(run),
    )


def shift_us(run: Run) -> float:
    """Return the largest shift of a device's times that lets every launch precede its kernel."""
    shifts = (ps for host in run.hosts for ps in host.timeline.shifts_ps.values())
    return max((0, *shifts)) / PS_PER_US


def idle_share(times: Timeline | None, devices: Sequence[DeviceInfo]) -> float | None:
    """Return the idle share of the regular steps or, without steps, of the recording.

    It is the mean over the GPUs that ran kernels.
    """
    of_steps = [
        d for d in (times.devices if times else ()) if d.steps and "GPU" in (d.device or "")
    ]
    runs = ("compute", "transfer")
    busy = [sum(p.share for p in d.phases if p.phase in runs) for d in of_steps] or [
        d.busy_share for d in devices if d.kind == "gpu" and d.kernels and d.busy_share is not None
    ]
    return max(0.0, 1 - sum(busy) / len(busy)) if busy else None


def _device_timeline(host: Host, steps: DeviceSteps) -> DeviceTimeline:
    return DeviceTimeline(
        host=host.name,
        device=steps.device,
        steps=int(steps.regular.sum()) if steps.has_steps else None,
        us_per_step=steps.step_us,
        phases=_phases(steps.mean_us()),
        overlap_share=_overlap_share(host, steps.device),
    )


def _overlap_share(host: Host, name: str | None) -> float | None:
    device = next((d for d in host.timeline.devices if d.device == name), None)
    if device is None:
        return None
    steps, parts = regular_steps(host.tables.steps), device.parts
    within = Intervals(parts.start_ps[:1], parts.end_ps[-1:])
    if not steps.empty:
        start_ps, took_ps = (steps[c].to_numpy(np.int64) for c in ("start_ps", "duration_ps"))
        within = union(start_ps, took_ps)
    shift_ps = host.timeline.shifts_ps[device.device]
    return overlap_share(host.tables, device, shift_ps, within)


def _phases(took_us: Mapping[StepPart, float]) -> tuple[PhaseTime, ...]:
    total = sum(took_us.values())
    return tuple(
        PhaseTime(phase=part, us=us, share=us / total) for part, us in took_us.items() if us
    )


def critical_paths(costs: Costs) -> tuple[CriticalPath, ...]:
    """Return the critical path through the regular steps of each host."""
    return tuple(map(_path, costs.paths))


def _path(found: HostPath) -> CriticalPath:
    path, of_row = found.path, found.of_row_ps
    total = int(path.duration_ps.sum())
    took_us = {
        part.kind: int(path.duration_ps[np.isin(path.phase, part.phases)].sum())
        / (found.steps * PS_PER_US)
        for part in PARTS
    }
    is_known = path.is_proved & (path.phase != Phase.UNATTRIBUTED)
    rows = np.argsort(-of_row, kind="stable")
    rows = rows[of_row[rows] > 0]
    columns = ["op_id", "name", "type", "placement"]
    shown = found.host.tables.ops.iloc[rows[:_MAX_OPS]][columns].astype(str).to_dict("records")
    return CriticalPath(
        host=found.host.name,
        steps=found.steps,
        us_per_step=total / found.steps / PS_PER_US,
        proved_share=int(path.duration_ps[is_known].sum()) / total if total else 0.0,
        phases=_phases(took_us),
        ops=tuple(
            to_record(PathOp, op, us_per_step=ps / found.steps / PS_PER_US, share=ps / total)
            for op, ps in zip(shown, of_row[rows[:_MAX_OPS]].tolist(), strict=True)
        ),
        ops_total=len(rows),
    )
