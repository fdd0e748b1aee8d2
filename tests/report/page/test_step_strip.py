"""Step times as bars: which steps, what kind, where the axes are marked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.report.examples import empty_run, gpu_run, hostile_run
from tests.report.markup import read
from traceanalyzer.model import Table
from traceanalyzer.report.packed import Numbers, pack, unpack
from traceanalyzer.report.page import render_page
from traceanalyzer.report.page.step_strip import chart_data, step_strip, wait_strip

if TYPE_CHECKING:
    from traceanalyzer.model import Cell, Report

COLUMNS = ("host", "step", "name", "duration_us", "kind")


def with_steps(*rows: tuple[Cell, ...], total: int | None = None) -> Report:
    run = gpu_run()
    table = Table(columns=COLUMNS, rows=rows, total_rows=total or len(rows))
    return replace(run, tables=replace(run.tables, steps=table))


def steps(*took: float, kind: str = "regular") -> list[tuple[Cell, ...]]:
    return [("h", index, "train", us, kind) for index, us in enumerate(took)]


def test_bars_are_as_high_as_their_times() -> None:
    strip = step_strip(with_steps(*steps(10, 40, 20)))
    assert strip is not None
    assert [bar.height for bar in strip.bars] == [0.25, 1, 0.5]
    assert all(bar.x >= 0 and bar.x + bar.width <= 100 for bar in strip.bars)
    assert strip.longest_us == 40
    # The example's median lies above all of these.
    assert strip.median is None


def test_the_median_lies_where_its_time_is() -> None:
    strip = step_strip(with_steps(*steps(14_000, 28_800)))
    assert strip is not None
    assert strip.median == pytest.approx(14_400 / 28_800, abs=0.01)


def test_kinds_are_told_in_words_and_counted() -> None:
    rows = [*steps(900, kind="warm_up"), *steps(100, 101), *steps(400, kind="outlier")]
    strip = step_strip(with_steps(*rows))
    assert strip is not None
    assert [bar.label for bar in strip.bars] == ["0, warm-up", "0", "1", "0, outlying"]
    assert strip.kinds == (("regular", 2), ("outlier", 1), ("warm_up", 1))
    section = read(render_page(with_steps(*rows))).one("section", id="steps")
    legend = next(iter(section.all("p", class_="legends"))).text
    assert "regular (2) outlying (1) warm-up (1)" in legend
    plot = section.one("figure", id="steps-chart").one("svg", class_="plot open")
    titles = [title.text for title in plot.all("title")]
    assert titles == [
        "step 0, warm-up: 900 µs",
        "step 0: 100 µs",
        "step 1: 101 µs",
        "step 0, outlying: 400 µs",
    ]


def test_many_steps_are_cut_and_marked_at_round_numbers() -> None:
    strip = step_strip(with_steps(*steps(*range(1, 301)), total=5_000))
    assert strip is not None
    assert len(strip.bars) == 200
    assert strip.total == 5_000
    assert [mark.label for mark in strip.labels] == ["0", "50", "100", "150"]


def test_of_two_loops_the_longer_is_shown() -> None:
    evaluation = [("h", index, "test", 5.0, "regular") for index in range(5)]
    strip = step_strip(with_steps(*evaluation, *steps(10, 20)))
    assert strip is not None
    assert strip.name == "h train"
    assert len(strip.bars) == 2


@pytest.mark.parametrize("took", [(), (5.0,), (0.0, 0.0), (-1.0, -2.0)])
def test_fewer_than_two_steps_that_took_time_are_no_picture(took: tuple[float, ...]) -> None:
    run = with_steps(*steps(*took))
    assert step_strip(run) is None
    assert chart_data(run) is None
    page = render_page(run)
    assert 'id="steps-chart"' not in page
    assert 'id="data-steps"' not in page


def test_steps_without_a_time_are_passed_over() -> None:
    strip = step_strip(with_steps(*steps(10, 20), ("h", 2, "train", None, "partial")))
    assert strip is not None
    assert len(strip.bars) == 2


def test_the_chart_has_every_step() -> None:
    rows = steps(*range(1, 401))
    data = chart_data(with_steps(*rows))
    assert data is not None
    opened = unpack(data)
    assert opened["duration_us"] == [float(k) for k in range(1, 401)]
    assert opened["step"][:2] == ["0", "1"]


def test_the_chart_takes_the_steps_that_the_table_does_not_hold() -> None:
    run = with_steps(*steps(10, 20))
    assert run.steps is not None
    times = pack({"duration_us": Numbers(np.arange(600))}, 600)
    assert chart_data(replace(run, steps=replace(run.steps, times=times))) is times


def test_waits_are_part_of_their_steps() -> None:
    strip = wait_strip(gpu_run())
    assert strip is not None
    bar = strip.bars[0]
    assert (bar.us, bar.wait_us) == (14_003 + 50.0, 6_153.25 + 50.0)
    assert 0 < bar.wait_height < bar.height <= 1
    assert strip.total == 120


def test_there_is_no_picture_of_waits_where_none_are_told() -> None:
    assert wait_strip(empty_run()) is None
    assert wait_strip(hostile_run()) is None
