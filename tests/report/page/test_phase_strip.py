"""What each step went to as stacked bars."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.report.examples import empty_run, gpu_run
from tests.report.markup import read
from traceanalyzer.model import Cell, Report, StepPhases, Table
from traceanalyzer.report.page import render_page
from traceanalyzer.report.page.phase_strip import phase_strip

COLUMNS = ("step", "kind", "duration_us", "compute_us", "host_op_us")


def with_phases(*rows: tuple[Cell, ...], total: int | None = None) -> Report:
    run = gpu_run()
    assert run.steps is not None
    table = Table(columns=COLUMNS, rows=rows, total_rows=total or len(rows))
    phases = StepPhases(host="h", device="/device:GPU:0", steps=table)
    return replace(run, steps=replace(run.steps, phases=phases))


TWO = (("3", "warm_up", 40.0, 20.0, 10.0), ("4", "regular", 20.0, 15.0, 5.0))


def test_phases_stand_one_upon_the_other_and_no_step_is_higher_than_it_took() -> None:
    strip = phase_strip(with_phases(*TWO))
    assert strip is not None
    assert strip.phases == ("compute", "host_op")
    first, second = strip.bars
    assert [(p.phase, p.y, p.height) for p in first.pieces] == [
        ("compute", 0.5, 0.5),
        ("host_op", 0.25, 0.25),
    ]
    assert first.height == 1  # a quarter of it is not told
    assert (second.height, [p.y for p in second.pieces]) == (0.5, [0.625, 0.5])
    assert first.label == "3, warm-up"
    assert second.told == (
        "computing 15.0\N{NO-BREAK SPACE}µs, waiting for an op 5.00\N{NO-BREAK SPACE}µs"
    )


def test_what_another_tool_tells_too_much_of_is_cut_to_the_step() -> None:
    strip = phase_strip(with_phases((1, "regular", 10.0, 8.0, 8.0), (2, "regular", 10.0, None, -1)))
    assert strip is not None
    assert [p.us for p in strip.bars[0].pieces] == [8.0, 2.0]
    assert strip.bars[1].pieces == ()
    assert strip.bars[1].told == "nothing is told of it"


def test_of_many_steps_the_first_are_shown_with_their_number() -> None:
    rows = [(k, "regular", 10.0, 5.0, 5.0) for k in range(150)]
    strip = phase_strip(with_phases(*rows, total=4_000))
    assert strip is not None
    assert (len(strip.bars), strip.total) == (100, 4_000)
    section = read(render_page(with_phases(*rows, total=4_000))).one("section", id="steps")
    assert "The first 100 of 4,000 steps." in section.text
    assert "Showing 100 of 4,000 steps. The first 150: traceanalyzer report" in section.text


def test_of_a_programs_own_thread_it_is_said_on_which_host() -> None:
    report = with_phases(*TWO)
    assert report.steps.phases is not None
    phases = replace(report.steps.phases, device=None, host="worker-7")
    report = replace(report, steps=replace(report.steps, phases=phases))

    def caption(report: Report) -> str:
        section = read(render_page(report)).one("section", id="steps")
        return section.one("figure", id="steps-phases").one("figcaption").text

    assert "own thread did in each step" in caption(report)
    several = replace(report, run=replace(report.run, hosts=("chief", "worker-7")))
    assert "own thread on worker-7 did in each step" in caption(several)


@pytest.mark.parametrize("report", [with_phases(TWO[0]), empty_run()], ids=["one", "none"])
def test_there_is_no_picture_of_fewer_than_two_steps(report: Report) -> None:
    assert phase_strip(report) is None
    section = read(render_page(report)).one("section", id="steps")
    assert "What each step went to" not in section.text


def test_the_picture_and_the_table_say_the_same() -> None:
    section = read(render_page(with_phases(*TWO))).one("section", id="steps")
    figure = section.one("figure", id="steps-phases")
    assert next(e.text for e in figure.all("title")).startswith(
        "step 3, warm-up, 40.0 µs: computing"
    )
    assert "What /device:GPU:0 did in each step" in figure.text
    (table,) = (t for t in section.all("table") if t.one("caption").text == "Phases of each step")
    rows = [[c.text for c in row.children if not isinstance(c, str)] for row in table.all("tr")]
    assert rows == [
        ["Step", "Time", "computing", "waiting for an op"],
        ["3, warm-up", "40.0 µs", "20.0 µs", "10.0 µs"],
        ["4", "20.0 µs", "15.0 µs", "5.00 µs"],
    ]
