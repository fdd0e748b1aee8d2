"""The step bar: where a step of each device goes, or where ops would be on a GPU machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.format import counted
from traceanalyzer.model.blocks import Bar, Bullets, Note, Part, Section, StepBar
from traceanalyzer.report.inline import prose, time
from traceanalyzer.report.text import sentence

if TYPE_CHECKING:
    from traceanalyzer.model.blocks import BarPart, Block, Text
    from traceanalyzer.report.page_facts import PageFacts
    from traceanalyzer.report.step_parts import DeviceSteps

_FEWEST_STEPS: Final = 3  # fewer do not show what recurs
_MOST_BARS: Final = 8


def step_bar(facts: PageFacts) -> Section | None:
    """Return the bar of the page; None if nothing is known."""
    if facts.kind == "D":
        return _predicted(facts)
    devices = sorted(facts.devices, key=lambda d: -_wait_us(facts, d))
    bars = tuple(_bar(facts, device) for device in devices[:_MOST_BARS])
    if not bars:
        return None
    of = "a step" if facts.has_steps else "the recording"
    note: Text = ()
    if facts.steps > 1:
        note = ("Mean of ", counted(facts.steps, "regular step"), ".")
    if len(devices) > _MOST_BARS:
        note = (*note, f" {len(devices) - _MOST_BARS:,} more devices are in the timeline.")
    block = StepBar(unit="us", bars=bars, note=note)
    return Section(id="step", title=f"Where {of} goes", blocks=(block,))


def device_name(host: str, device: str | None, facts: PageFacts) -> str:
    """Return a device as the page names it: `GPU:0`, with its host if there are several."""
    name = "The program's own thread" if device is None else device.rpartition("/device:")[2]
    return f"{name} of {host}" if len(facts.run.hosts) > 1 else name


def _wait_us(facts: PageFacts, device: DeviceSteps) -> float:
    return facts.waits_us.get((device.host, device.device or ""), 0.0)


def _bar(facts: PageFacts, device: DeviceSteps) -> Bar:
    parts = device.parts()
    total = round(device.step_us, 3)
    wait_us = facts.waits_us.get((device.host, device.device or ""))
    return Bar(
        label=device_name(device.host, device.device, facts),
        total=total,
        parts=tuple(
            Part(kind=p.kind, label=p.label, value=round(p.value, 3), to=typical_step(device))
            for p in parts
        ),
        by_placement=min(total, round(wait_us, 3)) if wait_us else None,
    )


def typical_step(device: DeviceSteps) -> str:
    """Return the step that is closest to the mean, as a place in the timeline; "" without steps."""
    if not device.has_steps:
        return ""
    distance = np.where(device.regular, abs(device.duration_us - device.step_us), np.inf)
    at = int(distance.argmin())
    start_us = device.start_us[at]
    return f"time-{start_us:.3f}-{start_us + device.duration_us[at]:.3f}"


def _predicted(facts: PageFacts) -> Section:
    counts = facts.with_a_gpu
    recur = facts.has_steps and facts.steps >= _FEWEST_STEPS
    stay = "On the CPU in each step" if recur else "On the CPU"
    named: tuple[tuple[BarPart, str, int], ...] = (
        ("on_gpu", "On the GPU", counts.on_gpu),
        ("on_cpu", stay, counts.on_cpu),
        ("on_cpu_once", "On the CPU once", counts.on_cpu_once),
        ("unknown", "Unknown", counts.unknown),
    )
    parts = tuple(Part(kind=k, label=label, value=n) for k, label, n in named if n)
    bar = Bar(label="Ops", total=counts.total, parts=parts)
    there = facts.diagnosis.on_a_gpu
    note: Text = (
        ()
        if there is None
        else (f"Predicted by replaying TensorFlow's placer. Assumed: {there.assumption}.",)
    )
    if facts.step_us and facts.has_steps:
        note = (*note, " A step takes ", time(facts.step_us), " here, without a GPU.")
    blocks: list[Block] = [StepBar(unit="count", bars=(bar,), note=note)]
    if there is not None and there.program_differs:
        differs = tuple(prose(sentence(text)) for text in there.program_differs)
        blocks += [
            Note(text=("The program may behave differently there:",)),
            Bullets(items=differs),
        ]
    return Section(id="step", title="Placement with a GPU", blocks=tuple(blocks))
