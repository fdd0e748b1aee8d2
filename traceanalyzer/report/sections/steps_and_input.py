"""The tab Steps and input: what each step spent its time on, and the input pipeline."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from traceanalyzer.format import counted
from traceanalyzer.model.blocks import (
    Chart,
    Code,
    Column,
    KeyValues,
    Note,
    Quantity,
    Series,
    Tab,
)
from traceanalyzer.report.sections.shared import table_of
from traceanalyzer.report.step_parts import PARTS
from traceanalyzer.report.text import sentence

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traceanalyzer.model.blocks import Block, Cell, Table, Text
    from traceanalyzer.model.resources import InputPipeline
    from traceanalyzer.model.times import Steps, Timeline
    from traceanalyzer.report.step_parts import DeviceSteps

_STEPS_SHOWN: Final = 400
_STAGES_SHOWN: Final = 40
_DEVICES_SHOWN: Final = 4
_EXACT_DIGITS: Final = 16  # a number of fewer is exact as a floating-point one
_KINDS: Final = {
    "warm_up": "warming up",
    "outlier": "far from the median",
    "partial": "recorded only in part",
}
_STAGES: Final = (
    Column(name="pipeline", title="Pipeline"),
    Column(name="stage", title="Stage", kind="code"),
    Column(name="name", title="Name"),
    Column(name="work_us", title="Work", kind="us"),
    Column(name="slow", title="Bounds the rate"),
    Column(name="elements", title="Elements", kind="count"),
    Column(name="parallelism", title="At once", kind="count"),
    Column(name="source", title="Source", kind="code", opens="source"),
)


def steps_tab(
    by_device: Sequence[DeviceSteps],
    steps: Steps | None,
    times: Timeline | None,
    pipeline: InputPipeline | None,
) -> Tab | None:
    """Return the tab; None if nothing is known of steps, of devices, or of an input pipeline."""
    blocks: list[Block] = []
    facts = [*_facts(steps), *_overlap(times)]
    if facts:
        blocks.append(KeyValues(rows=tuple(facts)))
    if any(device.has_steps for device in by_device):
        blocks += _chart(by_device)
    if len(by_device) > 1:
        blocks.append(_devices(by_device))
    if pipeline is not None:
        blocks += [Note(text=(part,)) for part in pipeline.text.split("\n\n")]
        if pipeline.stages.rows:
            blocks.append(_stages(pipeline))
    count = None if steps is None else steps.count or None
    return (
        Tab(id="steps", title="Steps and input", count=count, blocks=tuple(blocks))
        if blocks
        else None
    )


def _facts(steps: Steps | None) -> Iterator[tuple[str, Text]]:
    if steps is None or steps.source == "missing":
        return
    counts = steps.kinds
    if counts is not None:
        others = [
            f"{number:,} {words}"
            for kind, words in _KINDS.items()
            if (number := getattr(counts, kind))
        ]
        yield "Steps", (", ".join([f"{counts.regular:,} regular", *others]),)
    if steps.median_us is not None:
        yield "Median of the regular steps", (Quantity(value=steps.median_us, unit="us"),)
    if steps.p95_us is not None:
        yield "95th percentile", (Quantity(value=steps.p95_us, unit="us"),)
    if steps.note is not None:
        yield "How they were found", (sentence(steps.note.partition("; left out")[0]),)


def _overlap(times: Timeline | None) -> Iterator[tuple[str, Text]]:
    for device in () if times is None else times.devices[:_DEVICES_SHOWN]:
        if device.overlap_share is not None:
            share = Quantity(value=device.overlap_share, unit="share")
            name = Code(text=device.device or "")
            yield "Host and transfer time under compute", (share, " on ", name)


def _chart(by_device: Sequence[DeviceSteps]) -> Iterator[Block]:
    """Yield the parts of each step, on the device that computed least."""
    device = min(by_device, key=_computed)
    shown = slice(0, _STEPS_SHOWN)
    begin, end = device.start_us[shown], (device.start_us + device.duration_us)[shown]
    yield Chart(
        style="bars",
        x_label="Step",
        x_unit="count",
        x=_numbers(device.number[shown]),
        y_unit="us",
        series=tuple(
            Series(
                label=part.label,
                kind=part.kind,
                values=tuple(round(float(us), 3) for us in device.took_us[part.label][shown]),
            )
            for part in PARTS
            if part.label in device.took_us
        ),
        to=tuple(f"time-{a:.3f}-{b:.3f}" for a, b in zip(begin, end, strict=True)),
    )
    on: Text = ("The parts of each step, as your program's thread spent it",)
    if device.device is not None:
        on = ("The parts of each step, as ", Code(text=device.device), " spent it")
        on = (*on, ", which computed least") if len(by_device) > 1 else on
    if len(device.number) > _STEPS_SHOWN:
        on = (*on, f"; the first {_STEPS_SHOWN} of {counted(len(device.number), 'step')}")
    yield Note(text=(*on, "."))


def _numbers(steps: Sequence[str]) -> tuple[float, ...]:
    """Return the numbers of steps; if they do not rise, as of steps that overlap, their places."""
    is_number = all(step.isdecimal() and len(step) < _EXACT_DIGITS for step in steps)
    numbers = tuple(float(step) for step in steps) if is_number else ()
    rises = len(numbers) == len(steps) and all(a < b for a, b in pairwise(numbers))
    return numbers if rises else tuple(float(place) for place in range(len(steps)))


def _computed(device: DeviceSteps) -> float:
    took = device.took_us.get("Compute")
    return 0.0 if took is None else float(took.sum() / device.duration_us.sum())


def _devices(by_device: Sequence[DeviceSteps]) -> Table:
    """Return the mean step of each device, part by part."""
    several = len({device.host for device in by_device}) > 1
    seen = {part.label for device in by_device for part in device.parts()}
    rows: list[dict[str, Cell]] = []
    for device in by_device:
        name = device.device or "your program's thread"
        row: dict[str, Cell] = {"device": f"{device.host} {name}" if several else name}
        row |= dict.fromkeys(seen, 0.0) | {part.label: part.value for part in device.parts()}
        rows.append(row | {"step": device.step_us})
    columns = (
        Column(name="device", title="Device", kind="code"),
        Column(name="step", title="Step", kind="us"),
        *(Column(name=part.label, title=part.label, kind="us") for part in PARTS),
    )
    caption = ("The mean regular step of each device.",)
    return table_of(columns, rows, table_id="devices", caption=caption)


def _stages(pipeline: InputPipeline) -> Table:
    """Return the stages, each before those that it takes elements of."""
    slow = {(h.host, h.slow_stage): h.slow_us for h in pipeline.hosts if h.slow_stage is not None}
    records = sorted(
        pipeline.stages.records(),
        key=lambda row: (str(row["host"]), str(row["pipeline"]), str(row["stage"]).split("::")),
    )
    several = len({(row["host"], row["pipeline"]) for row in records}) > 1
    hosts = len({row["host"] for row in records}) > 1
    rows: list[dict[str, Cell]] = []
    for row in records[:_STAGES_SHOWN]:
        work = row["call_us"] or (None if row["is_async"] else row["self_us"])
        slow_us = slow.get((str(row["host"]), str(row["stage"])))
        place = f"{row['host']} {row['pipeline']}" if hosts else str(row["pipeline"])
        bounds: Text = ()
        if slow_us is not None:
            bounds = (Quantity(value=slow_us, unit="us"), " a step")
        rows.append(
            {
                "pipeline": place if several else None,
                "stage": row["stage"],
                "name": row["name"],
                "work_us": work,
                "slow": bounds or None,
                "elements": row["elements"],
                "parallelism": row["parallelism"],
                "source": row["function"] or row["source"],
            }
        )
    said = (
        "Stages of the input pipeline. Work is that of a stage's function or, without one, its "
        "own, over the whole recording, summed over threads."
    )
    return table_of(_STAGES, rows, pipeline.stages.total_rows, table_id="stages", caption=(said,))
