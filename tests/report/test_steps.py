"""What the report says of steps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.report.markup import read
from tests.traces import call, eager, event, host, line, step, thread, us, write, xspace
from traceanalyzer.diagnosis import diagnose
from traceanalyzer.model import StepKinds, Steps
from traceanalyzer.report.assemble import assemble
from traceanalyzer.report.page import render_page
from traceanalyzer.report.page.step_strip import step_strip
from traceanalyzer.report.steps import steps_of
from traceanalyzer.run import load

if TYPE_CHECKING:
    from pathlib import Path

    from tests.traces import Line
    from traceanalyzer.run import Run


def run_of(folder: Path, *hosts: tuple[Line, ...]) -> Run:
    for k, lines in enumerate(hosts):
        write(folder, xspace(host(*lines)), host=f"worker-{k}")
    return load(folder)


def marked(*durations: float, name: str = "train", at: float = 0) -> Line:
    """Steps one after the other, a microsecond between them."""
    starts = [at + sum(durations[:k]) + k for k in range(len(durations))]
    return line("python")(
        step(k, us(start, duration), name=name)
        for k, (start, duration) in enumerate(zip(starts, durations, strict=True))
    )


def test_the_figures_are_of_the_regular_steps(tmp_path: Path) -> None:
    run = run_of(tmp_path, (marked(900, 100, 102, 104, 400, 106),))

    assert steps_of(run) == Steps(
        source="markers",
        note=(
            "marked train (step_num); left out of the figures: 1 warming up at the start, "
            "1 far from the median"
        ),
        count=6,
        kinds=StepKinds(regular=4, warm_up=1, outlier=1, partial=0),
        median_us=103.0,
        p95_us=pytest.approx(105.7),
    )


def test_steps_that_the_recording_cut_are_counted_and_left_out(tmp_path: Path) -> None:
    run = run_of(
        tmp_path,
        (
            line("python")(
                call("__inference_f_1", us(0, 7)),
                *(
                    step(k, us(100 * k, 90))(call("__inference_f_1", us(100 * k, 80)))
                    for k in (1, 2)
                ),
            ),
        ),
    )

    found = steps_of(run)
    assert found.phases is not None
    assert replace(found, phases=None) == Steps(
        source="markers",
        note=(
            "marked train (step_num, unmarked call); left out of the figures: "
            "1 of which the recording holds only a part"
        ),
        count=3,
        kinds=StepKinds(regular=2, warm_up=0, outlier=0, partial=1),
        median_us=90.0,
        p95_us=90.0,
    )


def test_the_kind_that_took_most_time_is_told_of(tmp_path: Path) -> None:
    run = run_of(tmp_path, (marked(100, 100), marked(10, 10, 10, name="eval", at=500)))

    found = steps_of(run)

    assert found.note == "marked train (step_num); also: eval"
    assert (found.count, found.median_us) == (2, 100.0)


def test_hosts_take_the_same_steps(tmp_path: Path) -> None:
    run = run_of(tmp_path, (marked(100, 100, 100),), (marked(110, 110, 110),))

    found = steps_of(run)

    assert found.count == 3
    assert found.kinds == StepKinds(regular=3, warm_up=0, outlier=0, partial=0)
    assert found.median_us == 105.0  # of all six
    assert found.note == "marked train (step_num)"  # hosts at one time do not overlap each other


def test_steps_that_overlap_are_said_to(tmp_path: Path) -> None:
    run = run_of(
        tmp_path,
        (
            line("a")(step(0, us(0, 100)), step(2, us(200, 100))),
            line("b")(step(1, us(90, 100))),
        ),
    )

    assert steps_of(run).note == (
        "marked train (step_num); 1 step begins before the one before has ended"
    )


@pytest.mark.parametrize(
    ("lines", "note"),
    [
        (
            (line("python")(call("__inference_f_1", us(10 * k, 8)) for k in range(4)),),
            "the program calls f over and over, and each call begins a step",
        ),
        (
            (
                line("python")(
                    eager(kind, us(30 * k + at, 8))
                    for k in range(4)
                    for kind, at in (("Mul", 0), ("Sum", 10), ("AssignSub", 20))
                ),
            ),
            "the program runs the same 3 ops over and over",
        ),
    ],
)
def test_inferred_steps_are_said_to_be(tmp_path: Path, lines: tuple[Line, ...], note: str) -> None:
    found = steps_of(run_of(tmp_path, lines))

    assert found.source == "inferred"
    assert found.note == (
        f"nothing in the trace marks steps; inferred: {note}; "
        "left out of the figures: 1 of which the recording holds only a part"
    )
    assert found.kinds == StepKinds(regular=3, warm_up=0, outlier=0, partial=1)


def test_without_a_whole_step_there_is_no_figure(tmp_path: Path) -> None:
    run = run_of(tmp_path, (marked(100),))
    run.steps["kind"] = run.steps["kind"].cat.rename_categories({"regular": "partial"})

    found = steps_of(run)

    assert (found.count, found.median_us, found.p95_us) == (1, None, None)


def test_no_steps(tmp_path: Path) -> None:
    run = run_of(tmp_path, (thread("tf_Compute", 1)(event("ExecutorState::Process", us(0, 5))),))

    assert steps_of(run) == Steps(
        source="missing",
        note="nothing in the trace marks steps, and nothing in it repeats exactly",
        count=0,
    )


def test_bars_of_steps_that_are_left_out_say_so(tmp_path: Path) -> None:
    run = run_of(tmp_path, (marked(900, 100, 102, 104),))

    strip = step_strip(assemble(diagnose(run)))

    assert strip is not None
    assert [bar.label for bar in strip.bars] == ["0, warm-up", "1", "2", "3"]


def test_the_page_explains_the_kinds_that_occur(tmp_path: Path) -> None:
    run = run_of(tmp_path, (marked(900, 100, 102, 104, 400, 106),))

    text = read(render_page(assemble(diagnose(run)))).one("section", id="steps").text

    assert "Kinds of steps" in text
    assert "regular 4 Median and 95th percentile are of these alone." in text
    assert "warm-up 1 At the start" in text
    assert "outlying 1 Its time lies far from the median" in text
    assert "The recording began or ended within it" not in text


def test_the_page_does_not_where_all_are_regular(tmp_path: Path) -> None:
    run = run_of(tmp_path, (marked(100, 100, 102, 104),))

    section = read(render_page(assemble(diagnose(run)))).one("section", id="steps")

    assert "Kinds of steps" not in section.text
