"""Measures the parts of each device's steps, and the wait for each op."""

from __future__ import annotations

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
    waits_us: pd.Series[float] | None  # per step, for each op of the host; by op id
    overlap_share: float | None  # of host op and copy time: the part during a kernel

    @property
    def step_us(self) -> float:
        """The mean duration of the regular steps."""
        return float(self.duration_us[self.regular].mean())

    def mean_us(self) -> dict[StepPart, float]:
        """Return the mean time of each part of a regular step. The parts add up to `step_us`."""
        means = {kind: float(took[self.regular].mean()) for kind, took in self.took_us.items()}
        return {kind: us for kind, us in means.items() if us > 0}

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
