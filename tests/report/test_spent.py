"""What the verdict names first: what takes most of the time, and ops on the CPU in relation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import traceanalyzer as ta
from tests.traces import (
    call,
    eager,
    event,
    executor,
    gpu,
    host,
    kernel,
    launch,
    line,
    op,
    stream,
    thread,
    us,
    write,
    xspace,
)
from traceanalyzer.report.assemble import assemble

if TYPE_CHECKING:
    from pathlib import Path

FIRST, LAST = op("a", "MatMul", us(0, 10)), op("b", "MatMul", us(990, 10))


@pytest.fixture
def verdict(tmp_path: Path) -> Any:  # noqa: ANN401 - a function from planes to a sentence
    def make(*planes: Any) -> str:  # noqa: ANN401 - words of the language
        path = write(tmp_path / "logs", xspace(*planes))
        return assemble(ta.diagnose(ta.load(path))).summary.verdict

    return make


def test_python_between_ops_is_named_before_the_ops(verdict: Any) -> None:  # noqa: ANN401
    said = verdict(host(line("python")(FIRST, LAST)))

    assert said.startswith(
        "Most of the 1.00 ms recorded goes to your program, mostly Python (980 µs, 98 %); CPU ops "
        "take 20.0 µs (2 %). "
    )
    assert "2 ops ran on the CPU" in said


def test_where_python_runs_a_step_op_by_op_a_function_is_advised(verdict: Any) -> None:  # noqa: ANN401
    def steps(ops: int) -> Any:  # noqa: ANN401 - an iterator of events
        for step in range(30):
            yield from (eager(f"Op{n}", us(1000 * step + 30 * n, 8)) for n in range(ops))

    assert "the 25 ops of a step one by one" in verdict(host(line("python")(steps(25))))
    assert "@tf.function" not in verdict(host(line("python")(steps(3))))


def test_nothing_is_said_of_a_program_whose_call_had_not_ended(verdict: Any) -> None:  # noqa: ANN401
    """The thread of the call has no event yet; the one that runs the op has."""
    before = line("python")(op("a", "MatMul", us(0, 10)), event("Wait", us(10, 90)))
    said = verdict(host(before, line("work")(executor(us(100, 900))(op("b", "Eig", us(100, 900))))))
    assert said.startswith("No GPU was used")


def test_datasets_made_over_and_over_are_told_from_input_that_is_slow(verdict: Any) -> None:  # noqa: ANN401
    """As a loop of `predict` makes them."""
    making = [eager("MakeIterator", us(at, 70)) for at in range(20, 900, 90)]
    said = verdict(host(line("python")(FIRST, *making, LAST)))
    assert "goes to creating iterators" in said


def test_what_the_first_call_of_a_function_costs_is_no_python_of_the_program(verdict: Any) -> None:  # noqa: ANN401
    traced = event("tf.function-graph_building", us(20, 500))
    ready = event("EagerLocalExecute: __inference_f_7", us(530, 400))(
        event("EagerKernelExecute", us(900, 20))
    )
    said = verdict(host(line("python")(FIRST, traced, ready, LAST)))
    assert "tracing and preparing functions (870 µs, 87 %)" in said


def test_a_gpu_that_waits_for_python_waits_for_no_op(verdict: Any) -> None:  # noqa: ANN401
    python, kernels = [], []
    for number in range(5):
        at = 1000 * number
        multiply = eager("MatMul", us(at, 10))(launch(us(at + 5, 2), number + 1))
        python += [multiply, eager("Eig", us(at + 940, 30))]
        kernels.append(kernel("gemm", us(at + 8, 12), correlation=number + 1))

    said = verdict(host(line("python")(*python)), gpu(0)(stream(13, "Compute")(*kernels)))

    assert said.startswith(
        "For most of the 4.97 ms recorded, the GPU waits for your program, mostly"
    )
    assert "it waits 150 µs (3 %) for CPU ops. " in said


def test_a_call_that_waits_for_ops_in_threads_of_their_own_waits_for_ops(verdict: Any) -> None:  # noqa: ANN401
    """As the loop over a dataset in a tf.function runs: nothing links its threads to the call."""
    waiting = call("__inference_train_epoch_7", us(0, 1000), step=7)
    reduce = thread("tf_Compute", 2)(executor(us(10, 5), step=7), executor(us(985, 10), step=7))
    body = thread("tf_Compute", 3)(op("c", "Conv2D", us(20, 950)))

    said = verdict(host(line("python")(waiting), reduce, body))

    assert "the TensorFlow runtime" not in said
    assert "1 op ran on the CPU" in said
