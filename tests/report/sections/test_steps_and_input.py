"""The tab Steps and input: parts that add up to each step, and the stages of the input pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import traceanalyzer as ta
from tests.input_pipeline.paced import made_ahead
from tests.report.sections.reading import only, plain, records
from tests.report.sections.samples import SAMPLES, sample
from tests.test_costs import run_of, run_of_two_gpus
from tests.traces import eager, host, line, step, us, write, xspace
from traceanalyzer.model.blocks import Chart, KeyValues, Note, Table
from traceanalyzer.report.input_pipeline import input_pipeline
from traceanalyzer.report.step_sections import steps_tab
from traceanalyzer.report.steps import step_parts, steps_of, timeline

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.model.blocks import Tab
    from traceanalyzer.run import Run


def tab_of(run: Run) -> Tab:
    tab = steps_tab(step_parts(run), steps_of(run), timeline(run), input_pipeline(run))
    assert tab is not None
    return tab


@pytest.mark.parametrize("name", SAMPLES)
def test_the_parts_of_each_bar_add_up_to_the_step(name: str) -> None:
    run = sample(name).run
    (device,) = step_parts(run)

    chart = only(tab_of(run).blocks, Chart)

    sums = np.sum([series.values for series in chart.series], axis=0)
    np.testing.assert_allclose(sums, device.duration_us, atol=0.01)
    assert len(chart.to) == len(chart.x) == len(device.number)


def test_of_several_devices_the_chart_is_about_the_one_that_computed_least() -> None:
    tab = tab_of(run_of_two_gpus())

    chart = only(tab.blocks, Chart)

    values = {series.label: series.values for series in chart.series}
    assert values["Compute"] == (22.0,) * 4
    assert values["CPU ops"] == (40.0,) * 4
    assert "/device:GPU:0 spent it, which computed least" in plain(only(tab.blocks, Note).text)
    facts = [name for name, _ in only(tab.blocks, KeyValues).rows]
    assert facts.count("Host and transfer time under compute") == 2  # one for each device
    rows = {row["device"]: row for row in records(only(tab.blocks, Table))}
    assert rows["/device:GPU:1"]["Compute"] == 90.0
    assert rows["/device:GPU:1"]["CPU ops"] == 0.0  # it waited for none: that is known
    for row in rows.values():
        parts = [us for part, us in row.items() if part not in {"device", "step"} and us]
        assert sum(parts) == pytest.approx(row["step"])


def test_steps_of_one_number_stand_side_by_side() -> None:
    steps = (step(0, us(0, 100))(eager("Unique", us(10, 30))), step(0, us(100, 100)))
    run = run_of(host(line("python")(*steps)))

    assert only(tab_of(run).blocks, Chart).x == (0.0, 1.0)


def test_the_facts_say_which_steps_figures_leave_out() -> None:
    facts = dict(only(tab_of(sample("keras_fit").run).blocks, KeyValues).rows)

    assert "regular" in plain(facts["Steps"])
    assert {"Median of the regular steps", "95th percentile"} <= facts.keys()


def test_the_stage_that_bounds_the_rate_is_marked(tmp_path: Path) -> None:
    threads = made_ahead(10_000, 6_000, 10_000, python=True)

    tab = tab_of(ta.load(write(tmp_path, xspace(host(*threads)))))

    stages = records(next(b for b in tab.blocks if isinstance(b, Table) and b.id == "stages"))
    assert [row["stage"] for row in stages if row["slow"]] == ["Root::ParallelMapV2"]
    said = " ".join(plain(block.text) for block in tab.blocks if isinstance(block, Note))
    assert "The input pipeline is too slow on the CPU" in said


def test_nothing_known_is_no_tab() -> None:
    assert steps_tab((), None, None, None) is None
