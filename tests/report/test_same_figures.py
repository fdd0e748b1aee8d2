"""All renderings show the same figures: page, terminal, Markdown, report.json, and tables."""

import io
import json
import re
from collections.abc import Iterator
from functools import cache
from html import unescape

import pytest
from rich.console import Console

from tests.report.test_first_screen import every, waiting
from tests.samples import SAMPLES, sample, sample_report
from traceanalyzer.diagnosis import Diagnosis, cpu_ops
from traceanalyzer.model import Report
from traceanalyzer.model import blocks as b
from traceanalyzer.report.assemble import assemble
from traceanalyzer.report.document import dumps
from traceanalyzer.report.html import render_page
from traceanalyzer.report.terminal import print_page
from traceanalyzer.report.text import quantity

RUNS = (*SAMPLES, "a GPU that waits")


def diagnosed(name: str) -> Diagnosis:
    return sample(name) if name in SAMPLES else waiting()


@cache
def report(name: str) -> Report:
    return sample_report(name) if name in SAMPLES else assemble(waiting())


def page(name: str) -> b.Page:
    made = report(name).page
    assert made is not None
    return made


def figures(shown: b.Page) -> Iterator[str]:
    """Walk the figures of the answer, the step bar, and the changes."""
    for inline in (*shown.happened, *shown.next):
        if isinstance(inline, b.Quantity):
            yield quantity(inline.value, inline.unit)
    for block in every(shown, b.StepBar):
        for bar in block.bars:
            yield quantity(bar.total, block.unit)
            yield from (quantity(part.value, block.unit) for part in bar.parts)
    for table in every(shown, b.Changes):
        for row in table.rows:
            for inline in row.saves:
                if isinstance(inline, b.Quantity):
                    yield quantity(inline.value, inline.unit)


def in_the_terminal(shown: b.Page) -> str:
    console = Console(file=io.StringIO(), width=10_000)
    print_page(shown, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def in_a_browser(shown: b.Page) -> str:
    return unescape(re.sub(r"<[^>]*>", "", render_page(shown)))


@pytest.mark.parametrize("name", RUNS)
def test_each_rendering_shows_each_figure(name: str) -> None:
    shown = page(name)
    found = set(figures(shown))

    assert found
    for text in (in_the_terminal(shown), in_a_browser(shown)):
        assert not {figure for figure in found if figure not in text}


@pytest.mark.parametrize("name", RUNS)
def test_the_data_have_the_figures_of_the_page(name: str) -> None:
    data = json.loads(dumps(report(name)))
    *predicted, bars = (block.bars for block in every(page(name), b.StepBar))

    assert bool(predicted) == (page(name).kind == "D")
    for (bar,) in predicted:
        assert bar.total == data["on_a_gpu"]["replayed"]
    for bar, device in zip(bars, data["timeline"]["devices"], strict=True):
        assert bar.total == pytest.approx(device["us_per_step"], abs=0.002)
        shown = {part.kind: part.value for part in bar.parts}
        assert shown == {phase["phase"]: phase["us"] for phase in device["phases"]}
    waits = [bar.by_placement for bar in bars if bar.by_placement is not None]
    assert sum(waits) == pytest.approx(data["summary"]["exposed_us_per_step"] or 0, abs=0.002)


@pytest.mark.parametrize("name", RUNS)
def test_the_tables_have_the_figures_of_the_page(name: str) -> None:
    run = diagnosed(name).run
    data = report(name).summary

    assert data.cpu_ops == len(cpu_ops(run))
    assert data.cpu_op_us == pytest.approx(cpu_ops(run)["host_self_ps"].sum() / 1e6, abs=0.001)
    for table in every(page(name), b.Table):
        if "host_self_us" not in {column.name for column in table.columns} or table.id:
            continue
        took = [column.name for column in table.columns].index("host_self_us")
        for row, target in zip(table.rows, table.ids, strict=True):
            of_op = run.ops["host_self_ps"][run.ops["op_id"] == target.removeprefix("op-")]
            assert row[took] == int(of_op.iloc[0]) / 1e6
