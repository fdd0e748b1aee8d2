"""What the report says of steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.traces import call, eager, event, host, line, step, thread, us, write, xspace
from traceanalyzer.model.times import StepKinds, Steps
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
    assert found == Steps(
        source="markers",
        note=(
            "marked train (step_num, unmarked call); left out of the figures: "
            "1 recorded only in part"
        ),
        count=3,
        kinds=StepKinds(regular=2, warm_up=0, outlier=0, partial=1),
        median_us=90.0,
        p95_us=90.0,
    )


@pytest.mark.parametrize(
    ("lines", "note"),
    [
        (
            (line("python")(call("__inference_f_1", us(10 * k, 8)) for k in range(4)),),
            "the program calls f repeatedly, and each call begins a step",
        ),
        (
            (
                line("python")(
                    eager(kind, us(30 * k + at, 8))
                    for k in range(4)
                    for kind, at in (("Mul", 0), ("Sum", 10), ("AssignSub", 20))
                ),
            ),
            "the program runs the same 3 ops repeatedly",
        ),
    ],
)
def test_inferred_steps_are_said_to_be(tmp_path: Path, lines: tuple[Line, ...], note: str) -> None:
    found = steps_of(run_of(tmp_path, lines))

    assert found.source == "inferred"
    assert found.note == (
        f"the trace marks no steps; inferred: {note}; "
        "left out of the figures: 1 recorded only in part"
    )
    assert found.kinds == StepKinds(regular=3, warm_up=0, outlier=0, partial=1)


def test_no_steps(tmp_path: Path) -> None:
    run = run_of(tmp_path, (thread("tf_Compute", 1)(event("ExecutorState::Process", us(0, 5))),))

    assert steps_of(run) == Steps(
        source="missing",
        note="the trace marks no steps, and nothing in it repeats exactly",
        count=0,
    )
