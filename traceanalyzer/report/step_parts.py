"""How each step divides into parts: the one partition that all of the report shows.

The parts of a step add up to its duration. Before the first event of a device and after its last,
what it did is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from traceanalyzer.model.blocks import Part
from traceanalyzer.tables.steps import REGULAR, main_steps
from traceanalyzer.timeline.phase import PHASE_COLUMNS, Phase, phases_within
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from traceanalyzer.model.blocks import BarPart
    from traceanalyzer.run import Host, Run
    from traceanalyzer.timeline.walk import Parts


class StepPart(NamedTuple):
    """A part of a step: what the device did, or waited for."""

    kind: BarPart
    label: str
    meaning: str


PARTS: Final = (
    StepPart("compute", "Compute", "A kernel ran."),
    StepPart("transfer", "Transfers", "A transfer ran, and no kernel."),
    StepPart("cpu_op", "CPU ops", "The next work had to wait for an op on the CPU."),
    StepPart(
        "other",
        "Ops of unknown placement",
        "The next work had to wait for an op that computed on the CPU or launched a kernel.",
    ),
    StepPart(
        "input", "Input", "The input pipeline (tf.data), or the op that takes an element from it."
    ),
    StepPart(
        "launch",
        "Kernel launch",
        "The host launched the next work, or the device had not begun it yet.",
    ),
    StepPart(
        "runtime",
        "TensorFlow runtime",
        (
            "Executors, function calls, and handing work between threads; at tracer level 2 also "
            "the host side of ops on the device."
        ),
    ),
    StepPart(
        "program", "Your program", "Your program (mostly Python), between calls of TensorFlow."
    ),
    StepPart("other", "Another device", "The device waited for another device."),
    StepPart("unknown", "Unknown", "The trace does not show what the device waited for."),
)
"""In the order in which they are shown."""

_LABELS: Final = {
    Phase.COMPUTE: "Compute",
    Phase.COPY: "Transfers",
    Phase.HOST_OP: "CPU ops",
    Phase.UNPLACED: "Ops of unknown placement",
    Phase.INPUT: "Input",
    Phase.LAUNCH: "Kernel launch",
    Phase.QUEUED: "Kernel launch",
    Phase.RUNTIME: "TensorFlow runtime",
    Phase.PROGRAM: "Your program",
    Phase.OTHER_DEVICE: "Another device",
    Phase.UNATTRIBUTED: "Unknown",
}


@dataclass(frozen=True, eq=False, kw_only=True)
class DeviceSteps:
    """How one device spent the steps of its host, by start; without steps, the whole recording."""

    host: str
    device: str | None  # None for the program's own thread, if no device ran kernels
    has_steps: bool
    number: tuple[str, ...]
    kind: tuple[str, ...]  # "regular", "warm_up", "outlier", or "partial"
    start_us: NDArray[np.float64]  # from the run's first event
    duration_us: NDArray[np.float64]
    took_us: dict[str, NDArray[np.float64]]  # by label of `PARTS`; they add up to the durations

    @property
    def regular(self) -> NDArray[np.bool_]:
        """Which steps figures per step are about: the regular ones, or all if none is."""
        found = np.array([kind == REGULAR for kind in self.kind])
        return found if found.any() else np.ones(len(found), np.bool_)

    @property
    def step_us(self) -> float:
        """The mean duration of the regular steps."""
        return float(self.duration_us[self.regular].mean())

    def parts(self) -> tuple[Part, ...]:
        """Return the parts of a regular step, the mean over all; they add up to `step_us`."""
        means = {label: float(took[self.regular].mean()) for label, took in self.took_us.items()}
        return tuple(
            Part(kind=part.kind, label=part.label, value=means[part.label])
            for part in PARTS
            if means.get(part.label, 0.0) > 0
        )


def step_parts(run: Run) -> tuple[DeviceSteps, ...]:
    """Return the steps of each device that computed; without one, of each program's own thread."""
    origin_ps = min((host.start_ps for host in run.hosts), default=0)
    found = [steps for host in run.hosts for steps in _of_host(host, origin_ps)]
    return tuple([steps for steps in found if steps.device is not None] or found)


def _of_host(host: Host, origin_ps: int) -> Iterator[DeviceSteps]:
    timelines: list[tuple[str | None, Parts]] = [(d.device, d.parts) for d in host.timeline.devices]
    if host.timeline.program is not None:
        timelines.append((None, host.timeline.program))
    for device, parts in timelines:
        steps = main_steps(host.tables.steps).sort_values("start_ps", kind="stable")
        if steps.empty:
            start_ps, end_ps = parts.start_ps[:1], parts.end_ps[-1:]
            duration_ps, number, kind = end_ps - start_ps, [""], [REGULAR]
        else:
            start_ps = steps["start_ps"].to_numpy(np.int64)
            duration_ps = steps["duration_ps"].to_numpy(np.int64).clip(0)
            number, kind = steps["step"].tolist(), steps["kind"].tolist()
        if not duration_ps.any():
            continue
        yield DeviceSteps(
            host=host.name,
            device=device,
            has_steps=not steps.empty,
            number=tuple(map(str, number)),
            kind=tuple(map(str, kind)),
            start_us=(start_ps - origin_ps) / PS_PER_US,
            duration_us=duration_ps / PS_PER_US,
            took_us=_took_us(parts, start_ps, duration_ps),
        )


def _took_us(
    parts: Parts, start_ps: NDArray[np.int64], duration_ps: NDArray[np.int64]
) -> dict[str, NDArray[np.float64]]:
    took = phases_within(parts, start_ps, duration_ps)
    by_label = {part.label: np.zeros(len(start_ps), np.int64) for part in PARTS}
    for phase, label in _LABELS.items():
        by_label[label] += took[PHASE_COLUMNS[phase]].to_numpy(np.int64)
    by_label["Unknown"] += (duration_ps - sum(by_label.values())).clip(0)
    return {label: ps / PS_PER_US for label, ps in by_label.items() if ps.any()}
