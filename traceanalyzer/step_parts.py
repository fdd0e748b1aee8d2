"""Measures the parts of each device's steps, and the wait for each op."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traceanalyzer.model.blocks import Target
from traceanalyzer.model.figures import StepPart
from traceanalyzer.native.events import sum_by
from traceanalyzer.run import Host, Run, once_per_run
from traceanalyzer.tables.steps import main_steps, regular_steps
from traceanalyzer.timeline.device_parts import DeviceParts, overlap_share
from traceanalyzer.timeline.intervals import inside_ps, union
from traceanalyzer.timeline.walk import Phase
from traceanalyzer.units import PS_PER_US

#: The phases of a device in each part of a step, in the order in which parts are shown.
PARTS: Final[dict[StepPart, tuple[Phase, ...]]] = {
    "compute": (Phase.COMPUTE,),
    "transfer": (Phase.COPY,),
    "cpu_op": (Phase.HOST_OP,),
    "unplaced": (Phase.UNPLACED,),
    "input": (Phase.INPUT,),
    "preparation": (Phase.PREPARATION,),
    "launch": (Phase.LAUNCH, Phase.QUEUED),
    "runtime": (Phase.RUNTIME,),
    "program": (Phase.PROGRAM,),
    "other_device": (Phase.OTHER_DEVICE,),
    "unknown": (Phase.UNATTRIBUTED,),
}


_AGREE: Final = 0.05  # of the higher bound: closer bounds are one figure


@dataclass(frozen=True, eq=False, kw_only=True)
class DeviceSteps:
    """A device's time in each step of its host, or in the whole recording if steps are unknown."""

    host: str
    device: str | None  # None for the program's thread, if no device ran kernels
    has_steps: bool
    number: tuple[str, ...]
    regular: NDArray[np.bool_]  # the steps that count in figures: all, if none is regular
    start_us: NDArray[np.float64]  # from the run's first event
    duration_us: NDArray[np.float64]
    took_us: dict[StepPart, NDArray[np.float64]]  # by part; they add up to the durations
    #: The least and the most time that can be of CPU ops, where the trace leaves that open.
    cpu_op_bounds_us: tuple[NDArray[np.float64], NDArray[np.float64]]
    waits_us: pd.Series[float] | None  # per step, for each op of the host; by op id
    ops_us: pd.Series[float]  # per step, the part `cpu_op` by op id
    overlap_share: float | None  # of host op and copy time: the part during a kernel

    @property
    def step_us(self) -> float:
        """The mean duration of the regular steps."""
        return float(self.duration_us[self.regular].mean())

    def mean_us(self) -> dict[StepPart, float]:
        """Return the mean time of each part of a regular step. The parts add up to `step_us`."""
        means = {kind: float(took[self.regular].mean()) for kind, took in self.took_us.items()}
        return {kind: us for kind, us in means.items() if us > 0}

    def mean_bounds_us(self) -> tuple[float, float] | None:
        """Return the least and the most time of CPU ops in a regular step, None if they agree."""
        low, high = (float(bound[self.regular].mean()) for bound in self.cpu_op_bounds_us)
        return (low, high) if high - low > _AGREE * high else None

    def typical_step(self) -> Target:
        """Return the timeline link of the step closest to the mean, or "" without steps."""
        if not self.has_steps:
            return ""
        distance = np.where(self.regular, abs(self.duration_us - self.step_us), np.inf)
        return self.targets()[int(distance.argmin())]

    def targets(self) -> list[Target]:
        """Return the timeline link of each step."""
        spans = zip(self.start_us, self.start_us + self.duration_us, strict=True)
        return [f"time-{begin:.3f}-{end:.3f}" for begin, end in spans]


@dataclass(frozen=True, eq=False)
class MeanStep:
    """The mean step over all devices: the figures of the bar, headline, advice, and changes."""

    devices: tuple[DeviceSteps, ...]

    @property
    def has_steps(self) -> bool:
        """Whether times are per step. If not, they cover the whole recording."""
        return any(device.has_steps for device in self.devices)

    @property
    def steps(self) -> int:
        """The number of regular steps of one device, or 0 if steps are unknown."""
        return int(self.devices[0].regular.sum()) if self.has_steps else 0

    @property
    def us(self) -> float | None:
        """The duration, or None if nothing was recorded."""
        return _mean([device.step_us for device in self.devices])

    def part_us(self, *kinds: StepPart) -> float:
        """Return the time of some parts."""
        return sum(_mean([d.mean_us().get(k, 0.0) for d in self.devices]) or 0.0 for k in kinds)

    def part_share(self, *kinds: StepPart) -> float:
        """Return the share of some parts, or 0 if nothing was recorded."""
        return self.part_us(*kinds) / self.us if self.us else 0.0

    @property
    def cpu_op_doubt_us(self) -> tuple[float, float]:
        """How much shorter and longer the part `cpu_op` can be; 0 if that is negligible."""
        less_us = more_us = 0.0
        for device in self.devices:
            us, bounds = device.mean_us().get("cpu_op", 0.0), device.mean_bounds_us()
            if bounds is not None:
                less_us += (us - bounds[0]) / len(self.devices)
                more_us += (bounds[1] - us) / len(self.devices)
        return less_us, more_us

    def ops_us(self, op_ids: Collection[str]) -> float:
        """Return the time of some ops in the part `cpu_op`."""
        ids = list(op_ids)
        return _mean([float(d.ops_us.reindex(ids).sum()) for d in self.devices]) or 0.0


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def mean_step(run: Run) -> MeanStep:
    """Return the mean step of a run, or its whole recording if steps are unknown."""
    return MeanStep(step_parts(run))


@once_per_run
def step_parts(run: Run) -> tuple[DeviceSteps, ...]:
    """Return the steps of each device that ran kernels, or else of each host's program thread."""
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
    bounds = (parts.times(chosen) for chosen in (parts.is_host_op, parts.may_be_host_op))
    end_ps = start_ps + duration_ps
    low_ps, high_ps = (inside_ps(times, start_ps, end_ps) for times in bounds)
    within = union(start_ps[regular], duration_ps[regular])
    inside, ops = inside_ps(within, parts.start_ps, parts.end_ps), host.tables.ops["op_id"]

    def by_op_us(chosen: NDArray[np.bool_]) -> pd.Series[float]:
        sums = sum_by(parts.row[chosen].astype(np.int64), inside[chosen], len(ops))
        return pd.Series(sums / int(regular.sum()) / PS_PER_US, index=ops.to_numpy())

    waits_us, overlap = None, None
    if device is not None:
        waits_us = by_op_us(parts.is_exposed)
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
        cpu_op_bounds_us=(low_ps / PS_PER_US, high_ps / PS_PER_US),
        waits_us=waits_us,
        ops_us=by_op_us((parts.phase == Phase.HOST_OP) & (parts.row >= 0)),
        overlap_share=overlap,
    )
