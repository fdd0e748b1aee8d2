"""The step bar, and the tab Steps and input: where the time of steps went."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.format import counted
from traceanalyzer.model import blocks as b
from traceanalyzer.report.input_pipeline import input_blocks
from traceanalyzer.report.steps import LEFT_OUT, PARTS
from traceanalyzer.report.text import part, prose, sentence, time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traceanalyzer.model.figures import InputPipeline, Steps, Timeline
    from traceanalyzer.report.page_facts import PageFacts
    from traceanalyzer.report.steps import DeviceSteps

_FEWEST_STEPS: Final = 3  # fewer do not show which ops recur
_MOST_BARS: Final = 8
_STEPS_SHOWN: Final = 400
_DEVICES_SHOWN: Final = 4
_EXACT_DIGITS: Final = 16  # numbers with fewer digits are exact as floats


# --- the step bar ----------------------------------------------------------------------------


def step_bar(facts: PageFacts) -> b.Section | None:
    """Return how each device spends a step, or where ops would be on a machine with a GPU."""
    if facts.kind == "D":
        return _predicted(facts)
    devices = sorted(facts.devices, key=lambda d: -facts.wait_of(d))
    bars = tuple(_bar(facts, device) for device in devices[:_MOST_BARS])
    if not bars:
        return None
    of = "a step" if facts.has_steps else "the recording"
    note: b.Text = (f"Mean of {facts.steps:,} regular steps.",) if facts.steps > 1 else ()
    if len(devices) > _MOST_BARS:
        note = (*note, f" {len(devices) - _MOST_BARS:,} more devices are in the timeline.")
    block = b.StepBar(unit="us", bars=bars, note=note)
    return b.Section(id="step", title=f"Where {of} goes", blocks=(block,))


def _bar(facts: PageFacts, device: DeviceSteps) -> b.Bar:
    name = (device.device or "The program's own thread").rpartition("/device:")[2]
    total, wait_us, to = round(device.step_us, 3), facts.wait_of(device), typical_step(device)
    parts = (
        b.Part(kind=p.kind, label=p.label, value=round(p.value, 3), to=to) for p in device.parts()
    )
    return b.Bar(
        label=f"{name} of {device.host}" if len(facts.run.hosts) > 1 else name,
        total=total,
        parts=tuple(parts),
        by_placement=min(total, round(wait_us, 3)) if wait_us else None,
    )


def typical_step(device: DeviceSteps) -> b.Target:
    """Return the timeline link of the step that is closest to the mean; "" without steps."""
    if not device.has_steps:
        return ""
    distance = np.where(device.regular, abs(device.duration_us - device.step_us), np.inf)
    return step_targets(device)[int(distance.argmin())]


def step_targets(device: DeviceSteps) -> list[b.Target]:
    """Return the timeline link of each step."""
    begin_us, end_us = device.start_us, device.start_us + device.duration_us
    return [f"time-{a:.3f}-{z:.3f}" for a, z in zip(begin_us, end_us, strict=True)]


def _predicted(facts: PageFacts) -> b.Section:
    counts, there = facts.with_a_gpu, facts.diagnosis.on_a_gpu
    recur = facts.has_steps and facts.steps >= _FEWEST_STEPS
    stay = "On the CPU in each step" if recur else "On the CPU"
    named: tuple[tuple[b.BarPart, str, int], ...] = (
        ("on_gpu", "On the GPU", counts.on_gpu),
        ("on_cpu", stay, counts.on_cpu),
        ("on_cpu_once", "On the CPU once", counts.on_cpu_once),
        ("unknown", "Unknown", counts.unknown),
    )
    parts = tuple(b.Part(kind=k, label=label, value=n) for k, label, n in named if n)
    bar = b.Bar(label="Ops", total=sum(counts), parts=parts)
    note: b.Text = ()
    if there is not None:
        note = (f"Predicted by replaying TensorFlow's placer. Assumed: {there.assumption}.",)
    if facts.step_us and facts.has_steps:
        note = (*note, " The mean step takes ", time(facts.step_us), " here, without a GPU.")
    blocks: list[b.Block] = [b.StepBar(unit="count", bars=(bar,), note=note)]
    if there is not None and there.program_differs:
        blocks += [
            b.Note(text=("The program may behave differently there:",)),
            b.Bullets(items=tuple(prose(sentence(text)) for text in there.program_differs)),
        ]
    return b.Section(id="step", title="Placement with a GPU", blocks=tuple(blocks))


# --- the tab ---------------------------------------------------------------------------------


def steps_tab(
    by_device: Sequence[DeviceSteps],
    steps: Steps | None,
    times: Timeline | None,
    pipeline: InputPipeline | None,
) -> b.Tab | None:
    """Return the tab; None without steps, device times, and an input pipeline."""
    facts = (*_facts(steps), *_overlap(times))
    blocks: list[b.Block] = [b.KeyValues(rows=facts)] if facts else []
    if any(device.has_steps for device in by_device):
        blocks += _chart(by_device)
    if pipeline is not None:
        blocks += input_blocks(pipeline)
    if not blocks:
        return None
    count = None if steps is None else steps.count or None
    return b.Tab(id="steps", title="Steps and input", count=count, blocks=tuple(blocks))


def _facts(steps: Steps | None) -> Iterator[tuple[str, b.Text]]:
    if steps is None or steps.source == "missing":
        return
    if steps.kinds is not None:
        numbers = {words: getattr(steps.kinds, kind) for kind, words in LEFT_OUT.items()}
        left_out = [f"{number:,} {words}" for words, number in numbers.items() if number]
        yield "Steps", (", ".join([f"{steps.kinds.regular:,} regular", *left_out]),)
    if steps.median_us is not None:
        yield "Median of the regular steps", (time(steps.median_us),)
    if steps.p95_us is not None:
        yield "95th percentile", (time(steps.p95_us),)
    if steps.note is not None:
        yield "How they were found", (sentence(steps.note.partition("; left out")[0]),)


def _overlap(times: Timeline | None) -> Iterator[tuple[str, b.Text]]:
    for device in () if times is None else times.devices[:_DEVICES_SHOWN]:
        if device.overlap_share is not None:
            on = (part(device.overlap_share), " on ", b.Code(text=device.device or ""))
            yield "Host and transfer time under compute", on


def _chart(by_device: Sequence[DeviceSteps]) -> Iterator[b.Block]:
    """Yield the parts of each step, on the device that computed least."""
    device = min(by_device, key=_computed)
    shown = slice(0, _STEPS_SHOWN)
    took = {p: device.took_us[p.kind][shown] for p in PARTS if p.kind in device.took_us}
    yield b.Chart(
        style="bars",
        x_label="Step",
        x_unit="count",
        x=_numbers(device.number[shown]),
        y_unit="us",
        series=tuple(
            b.Series(label=p.label, kind=p.kind, values=tuple(np.round(us, 3).tolist()))
            for p, us in took.items()
        ),
        to=tuple(step_targets(device)[shown]),
    )
    on: b.Text = ("The parts of each step, as your program's thread spent it",)
    if device.device is not None:
        least = ", which computed least" if len(by_device) > 1 else ""
        on = ("The parts of each step, as ", b.Code(text=device.device), f" spent it{least}")
    if len(device.number) > _STEPS_SHOWN:
        on = (*on, f"; the first {_STEPS_SHOWN} of {counted(len(device.number), 'step')}")
    yield b.Note(text=(*on, "."))


def _numbers(steps: Sequence[str]) -> tuple[float, ...]:
    """Return the numbers of steps, or their positions if the numbers do not rise (overlaps)."""
    is_number = all(step.isdecimal() and len(step) < _EXACT_DIGITS for step in steps)
    numbers = tuple(map(float, steps)) if is_number else ()
    rises = is_number and all(a < z for a, z in pairwise(numbers))
    return numbers if rises else tuple(map(float, range(len(steps))))


def _computed(device: DeviceSteps) -> float:
    took = device.took_us.get("compute")
    return 0.0 if took is None else float(took.sum() / device.duration_us.sum())
