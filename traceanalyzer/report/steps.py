"""Reports on steps: the data, the step bar, and the "Steps and input" tab."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from traceanalyzer.format import counted
from traceanalyzer.model import blocks as b
from traceanalyzer.model import figures as m
from traceanalyzer.model.figures import InputPipeline, Steps
from traceanalyzer.report.input_pipeline import input_blocks
from traceanalyzer.report.page_facts import PageFacts
from traceanalyzer.report.records import to_record
from traceanalyzer.report.text import (
    between,
    capital,
    fill,
    part,
    plain,
    prose,
    sentence,
    time,
    word,
)
from traceanalyzer.run import Run, once_per_run
from traceanalyzer.step_parts import PARTS, DeviceSteps, step_parts
from traceanalyzer.tables.steps import OUTLIER, PARTIAL, REGULAR, WARM_UP, main_steps
from traceanalyzer.units import PS_PER_US

_LEFT_OUT: Final = {
    WARM_UP: "warming up",
    OUTLIER: "far from the median",
    PARTIAL: "recorded only in part",
}
_FEWEST_STEPS: Final = 3  # fewer do not show which ops recur
_MOST_BARS: Final = 8
_STEPS_SHOWN: Final = 400
_EXACT_DIGITS: Final = 16  # numbers with fewer digits are exact as floats


@once_per_run
def steps_of(run: Run) -> m.Steps:
    """Summarize the kind of steps that took the most time, usually training steps."""
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
        note = f"the trace marks no steps, so they are inferred from {sources}: {name}"
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
    """Return phrases that count the excluded steps, e.g. "2 far from the median"."""
    numbers = {words: getattr(kinds, kind) for kind, words in _LEFT_OUT.items()}
    return [f"{number:,} {words}" for words, number in numbers.items() if number]


def part_label(kind: m.StepPart) -> str:
    """Return the label of a part of a step."""
    return capital(word("part", kind))


# --- devices, as data ------------------------------------------------------------------------


def timeline(run: Run) -> m.DeviceTimes | None:
    """Return the time of each device by phase, or None if nothing was recorded."""
    found = step_parts(run)
    if not found:
        return None
    devices = tuple(
        to_record(
            m.DeviceTimeline,
            steps,
            steps=int(steps.regular.sum()) if steps.has_steps else None,
            us_per_step=steps.step_us,
            phases=_phases(steps.mean_us(), steps.mean_bounds_us()),
        )
        for steps in found
    )
    return m.DeviceTimes(devices=devices, shift_us=shift_us(run))


def _phases(
    took_us: Mapping[m.StepPart, float], cpu_op_us: tuple[float, float] | None
) -> tuple[m.PhaseTime, ...]:
    total, bounds = sum(took_us.values()), {"cpu_op": cpu_op_us or (None, None)}
    return tuple(
        m.PhaseTime(
            phase=kind,
            us=us,
            share=us / total,
            **dict(zip(("low_us", "high_us"), bounds.get(kind, ()), strict=False)),
        )
        for kind, us in took_us.items()
        if us
    )


def shift_us(run: Run) -> float:
    """Return the largest correction of a device's clock, in microseconds."""
    shifts = (ps for host in run.hosts for ps in host.timeline.shifts_ps.values())
    return max((0, *shifts)) / PS_PER_US


# --- the step bar ----------------------------------------------------------------------------


def placement_bar(facts: PageFacts) -> b.Section | None:
    """Return the section with a bar of predicted placements, or None without a prediction."""
    return _predicted_bar(facts) if facts.kind == "D" else None


def step_bar(facts: PageFacts) -> b.Section | None:
    """Return the section with a bar of each device's mean step, or None if there is none."""
    devices = sorted(facts.devices, key=lambda device: -facts.wait_of(device))
    if not devices:
        return None
    bars = tuple(_bar(facts, device) for device in devices[:_MOST_BARS])
    kinds = steps_of(facts.run).kinds
    rest = f" Left out: {', '.join(left_out(kinds))}." if kinds and left_out(kinds) else ""
    note: b.Text = (f"Mean of {facts.steps:,} regular steps.{rest}",) if facts.steps > 1 else ()
    if len(devices) > _MOST_BARS:
        note = (*note, f" The timeline shows {counted(len(devices) - _MOST_BARS, 'more device')}.")
    block = b.StepBar(unit="us", bars=bars, note=note)
    of = "a step" if facts.has_steps else "the recording"
    title = f"Where {of} goes{', without a GPU' if facts.kind == 'D' else ''}"
    return b.Section(id="step", title=title, blocks=(block,))


def _bar(facts: PageFacts, device: DeviceSteps) -> b.Bar:
    name = (device.device or "The program's own thread").rpartition("/device:")[2]
    total, wait_us, means = round(device.step_us, 3), facts.wait_of(device), device.mean_us()
    to = device.typical_step()
    return b.Bar(
        label=f"{name} of {device.host}" if len(facts.run.hosts) > 1 else name,
        total=total,
        parts=tuple(
            b.Part(kind=kind, label=_label(facts, device, kind), value=round(means[kind], 3), to=to)
            for kind in PARTS
            if kind in means
        ),
        by_placement=min(total, round(wait_us, 3)) if wait_us else None,
    )


def _label(facts: PageFacts, device: DeviceSteps, kind: m.StepPart) -> str:
    bounds = device.mean_bounds_us() if kind == "cpu_op" else None
    name = capital(facts.part_name(kind))
    return name if bounds is None else f"{name}, {plain(between(*map(time, bounds)))}"


def _predicted_bar(facts: PageFacts) -> b.Section:
    counts, there = facts.with_a_gpu, facts.diagnosis.on_a_gpu
    recur = facts.has_steps and facts.steps >= _FEWEST_STEPS
    named: tuple[tuple[b.BarPart, str, int], ...] = (
        ("on_gpu", "On the GPU", counts.on_gpu),
        ("on_cpu", "On the CPU in every step" if recur else "On the CPU", counts.on_cpu),
        ("on_cpu_once", "On the CPU, not in every step", counts.on_cpu_once),
        ("unknown", "Unknown", counts.unknown),
    )
    parts = tuple(b.Part(kind=k, label=label, value=n) for k, label, n in named if n)
    note: b.Text = ()
    if there is not None:
        note = (f"Predicted by replaying TensorFlow's placer. Assumed: {there.assumption}.",)
    bar = b.Bar(label="Ops, input pipeline not counted", total=sum(counts), parts=parts)
    blocks: list[b.Block] = [b.StepBar(unit="count", bars=(bar,), note=note)]
    if there is not None and there.program_differs:
        items = tuple(prose(sentence(text)) for text in there.program_differs)
        blocks.append(b.Note(text=("The program may behave differently there:",)))
        blocks.append(b.Bullets(items=items))
    return b.Section(id="placement", title="Placement with a GPU", blocks=tuple(blocks))


# --- the tab ---------------------------------------------------------------------------------


def steps_tab(
    devices: Sequence[DeviceSteps], steps: Steps | None, pipeline: InputPipeline | None
) -> b.Tab | None:
    """Return the "Steps and input" tab, or None if it would be empty."""
    facts = tuple(_facts(steps, devices))
    blocks: list[b.Block] = [b.KeyValues(rows=facts)] if facts else []
    if any(device.has_steps for device in devices):
        blocks += _chart(devices)
    if pipeline is not None:
        blocks += input_blocks(pipeline)
    if not blocks:
        return None
    return b.Tab(id="steps", title="Steps and input", blocks=tuple(blocks))


def _facts(steps: Steps | None, devices: Sequence[DeviceSteps]) -> Iterator[tuple[str, b.Text]]:
    if steps is not None and steps.kinds is not None:
        yield "Steps", (", ".join([f"{steps.kinds.regular:,} regular", *left_out(steps.kinds)]),)
        if steps.p95_us is not None:
            yield "95th percentile", (time(steps.p95_us),)
        yield "How they were found", (sentence(str(steps.note).partition("; left out")[0]),)
    for device in devices:
        if device.overlap_share is not None:
            on = (part(device.overlap_share), " on ", b.Code(text=device.device or ""))
            yield "Host and transfer time overlapping compute", on


def _chart(devices: Sequence[DeviceSteps]) -> Iterator[b.Block]:
    """Yield a chart of each step's parts on the device that spent the least time computing."""
    device = min(devices, key=lambda d: d.mean_us().get("compute", 0.0) / (d.step_us or 1.0))
    yield b.Chart(
        style="bars",
        x_label="Step",
        x_unit="count",
        x=_numbers(device.number[:_STEPS_SHOWN]),
        y_unit="us",
        series=tuple(
            b.Series(
                label=part_label(kind),
                kind=kind,
                values=tuple(np.round(device.took_us[kind][:_STEPS_SHOWN], 3).tolist()),
            )
            for kind in PARTS
            if kind in device.took_us
        ),
        to=tuple(device.targets()[:_STEPS_SHOWN]),
    )
    on, end = b.Code(text=device.device or ""), ""
    if len(devices) > 1 and device.device is not None:
        end = ", which spent the least time computing"
    if len(device.number) > _STEPS_SHOWN:
        end += f"; the first {_STEPS_SHOWN} of {counted(len(device.number), 'step')}"
    who = "your program's thread" if device.device is None else on
    yield b.Note(text=fill("The parts of each step on {}{}.", who, end))


def _numbers(steps: Sequence[str]) -> tuple[float, ...]:
    """Return the step numbers, or the steps' positions if their numbers do not increase."""
    if all(step.isdecimal() and len(step) < _EXACT_DIGITS for step in steps):
        numbers = tuple(map(float, steps))
        if all(before < after for before, after in pairwise(numbers)):
            return numbers
    return tuple(map(float, range(len(steps))))
