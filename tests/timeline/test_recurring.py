"""Ops of each step, and ops of set-up, checkpoints and the start of each fit."""

from pathlib import Path
from typing import Any

import pytest

import traceanalyzer as ta
from tests.traces import (
    eager,
    event,
    gpu,
    host,
    kernel,
    launch,
    line,
    op,
    step,
    stream,
    us,
    write,
    xspace,
)
from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.report.assemble import assemble

STEPS = 12


@pytest.fixture
def diagnosed(tmp_path: Path) -> Any:  # noqa: ANN401 - a function from events to a diagnosis
    def make(*others: Any, within: Any = ()) -> Diagnosis:  # noqa: ANN401 - words of the language
        """Twelve steps of 90 us, one each 100 us from 1000 us on, with `Eig` in each."""
        python, kernels = list(others), []
        for number in range(STEPS):
            at = 1000 + 100 * number
            ops = [
                eager("MatMul", us(at, 10))(launch(us(at + 5, 2), number + 1)),
                eager("Eig", us(at + 30, 20)),
                *(make_op(number, at + 55) for make_op in within),
            ]
            python.append(step(number, us(at, 90))(*ops))
            kernels.append(kernel("gemm", us(at + 8, 12), correlation=number + 1))
        made = xspace(host(line("python")(*python)), gpu(0)(stream(13, "Compute")(*kernels)))
        return ta.diagnose(ta.load(write(tmp_path / "logs", made)))

    return make


def harms(diagnosis: Diagnosis) -> dict[str, str]:
    """The harm of each op type without a GPU kernel, in the order of the findings."""
    types = dict(zip(diagnosis.run.ops["op_id"], diagnosis.run.ops["type"], strict=True))
    return {types[f.op_ids[0]]: f.harm for f in diagnosis.findings if f.cause == "no_gpu_kernel"}


def test_what_ran_once_before_the_steps_does_no_harm_however_long_it_took(diagnosed: Any) -> None:  # noqa: ANN401
    found = diagnosed(eager("RandomShuffle", us(0, 900)))

    assert harms(found) == {"Eig": "harmful", "RandomShuffle": "harmless"}
    (shuffled,) = [f for f in found.findings if "RandomShuffle" in f.title]
    assert "ran once, outside the steps" in shuffled.title
    report = assemble(found)
    assert report.findings[0].title.startswith("Eig")
    assert "Eig" in report.summary.verdict
    per_step = [f.cost.host_us_per_step for f in report.findings]
    assert per_step == [20.0, 0.0]


@pytest.mark.parametrize(
    ("others", "harm", "title"),
    [
        ([(990, 9), (1595, 4)], "harmless", ""),  # what begins each of a few fits
        ([(100 * k, 90) for k in range(9)], "harmless", "ran only outside the steps"),
        # Work between each two steps costs as much as work in a step.
        ([(1092 + 100 * k, 6) for k in range(STEPS)], "harmful", ""),
    ],
)
def test_what_ran_outside_the_steps(
    diagnosed: Any,  # noqa: ANN401 - a function
    others: list[tuple[int, int]],
    harm: str,
    title: str,
) -> None:
    found = diagnosed(*(eager("RandomShuffle", us(*at)) for at in others))
    assert harms(found)["RandomShuffle"] == harm
    assert any(title in f.title for f in found.findings if "RandomShuffle" in f.title)


def test_what_ran_in_the_first_step_alone_made_it_ready(diagnosed: Any) -> None:  # noqa: ANN401
    made = [lambda number, at: eager("RandomShuffle" if not number else "Neg", us(at, 20))]
    found = diagnosed(within=made)
    assert harms(found)["RandomShuffle"] == "harmless"
    assert any("ran once, in one step" in f.title for f in found.findings)


def test_an_op_of_a_function_that_every_step_calls_may_leave_an_event_once(diagnosed: Any) -> None:  # noqa: ANN401
    """At tracer level 2 an op that became cheap leaves no event any more."""
    types = ["RandomShuffle", *["MatrixLogarithm"] * STEPS]
    found = diagnosed(within=[lambda number, at: op("model/a", types[number], us(at, 5))])
    assert harms(found)["RandomShuffle"] == "harmful"


def test_what_initializes_a_session_is_not_part_of_each_step(tmp_path: Path) -> None:
    """An op that became cheap is: it leaves an event in the first of the runs that have it."""

    def run(number: int, *types: str) -> tuple[Any, Any]:
        at = 100 * number
        ops = [op(f"a/{type_}", type_, us(at + 10 * k + 1, 9)) for k, type_ in enumerate(types)]
        turn = event("ExecutorState::Process", us(at + 1, 80), id=number)(*ops)
        return event("SessionRun", us(at, 90), id=number), turn

    runs = [run(1, "VariableV2", "RandomShuffle", "Where", "Assign")]
    runs += [run(2, "VariableV2", "Eig", "MatrixLogarithm", "Tanh")]
    runs += [run(number, "VariableV2", "Eig", "Tanh") for number in range(3, 3 + STEPS)]
    python, pool = zip(*runs, strict=True)
    threads = host(line("python")(*python), line("pool")(*pool))
    computed = gpu(0)(stream(13, "Compute")(kernel("gemm", us(8, 12))))
    found = ta.diagnose(ta.load(write(tmp_path / "logs", xspace(threads, computed))))

    assert harms(found) == {
        "Eig": "harmful",
        "MatrixLogarithm": "harmful",
        "RandomShuffle": "harmless",
    }


def test_without_steps_it_is_unknown_which_ops_recur(tmp_path: Path) -> None:
    made = xspace(
        host(line("python")(eager("RandomShuffle", us(0, 900)))),
        gpu(0)(stream(13, "Compute")(kernel("gemm", us(8, 12)))),
    )
    found = ta.diagnose(ta.load(write(tmp_path / "logs", made)))
    assert harms(found) == {"RandomShuffle": "harmful"}
