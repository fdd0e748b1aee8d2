"""The sentence at the top: it says what the trace shows, and what it leaves open."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import traceanalyzer as ta
from tests.causes.examples import Example, captured
from tests.traces import (
    eager,
    event,
    executor,
    gpu,
    host,
    iterator,
    kernel,
    line,
    op,
    plane,
    send,
    stream,
    thread,
    us,
    write,
    xla_kernel,
    xspace,
)
from traceanalyzer.capture_file.document import CaptureFile, Note
from traceanalyzer.report.assemble import assemble

if TYPE_CHECKING:
    from traceanalyzer.model import Report

BUSY = gpu(0)(stream(9, "Compute")(kernel("k", us(0, 50), "model/MatMul:MatMul")))
RECOMMENDER = Path(__file__).resolve().parents[2] / "sample_traces" / "recommender" / "logs"
PIPELINE = thread("tf_data_iterator", 1)(iterator("Root::Shuffle", us(0, 5)))


@pytest.fixture
def report(tmp_path: Path) -> Any:  # noqa: ANN401  # a function from planes to a report
    def make(*planes: Any) -> Report:  # noqa: ANN401  # words of the language
        return assemble(ta.diagnose(ta.load(write(tmp_path, xspace(*planes)))))

    return make


MATMUL = host(line("t")(op("a", "MatMul", us(0, 5))))
EIG_AND_JOIN = host(line("t")(op("a", "Eig", us(0, 5)), op("b", "StringJoin", us(9, 5))))
FUSION = gpu(0)(stream(1)(xla_kernel("fusion", us(0, 5), hlo_op="fusion.1")))


@pytest.mark.parametrize(
    ("planes", "said"),
    [
        ((host(PIPELINE), BUSY), ["The model runs entirely on the GPU."]),
        ((host(PIPELINE, line("python")(eager("Neg", us(9, 2)))), BUSY), ["For 1 op (2.00 µs)"]),
        ((BUSY,), ["No op of the model is known", "The trace does not record CPU ops"]),
        ((MATMUL, BUSY), ["1 op ran on the CPU (5.00 µs)", "The trace does not show why."]),
        ((EIG_AND_JOIN, BUSY), ["Start with: Eig has no GPU kernel", "100 % of their time"]),
        ((MATMUL,), ["No GPU was used. 1 op ran on the CPU (5.00 µs)."]),
        ((MATMUL, gpu(0)()), ["No GPU was used, although the machine has one."]),
        ((FUSION, host(PIPELINE)), ["There is nothing to explain: 1 XLA op"]),
        ((host(line("t")(event("something", us(0, 5)))),), ["The trace contains no ops"]),
    ],
)
def test_verdict(report: Any, planes: tuple[Any, ...], said: list[str]) -> None:  # noqa: ANN401
    verdict = report(*planes).summary.verdict
    assert all(words in verdict for words in said), verdict


def test_without_a_gpu_it_says_what_would_stay_on_the_cpu_with_one() -> None:
    made = assemble(ta.diagnose(ta.load(RECOMMENDER)))

    assert made.on_a_gpu is not None
    first = made.on_a_gpu.findings[0].title
    assert f"With a GPU, 5 of 52 ops would still run on the CPU. Start with: {first}." in (
        made.summary.verdict
    )


def test_what_is_only_likely_there_is_no_plain_statement() -> None:
    diagnosis = ta.diagnose(ta.load(RECOMMENDER))
    assert diagnosis.on_a_gpu is not None
    there = replace(
        diagnosis.on_a_gpu,
        findings=tuple(replace(f, certainty="likely") for f in diagnosis.on_a_gpu.findings),
        program_differs=("the program asks which GPUs there are",),
        analysis=replace(diagnosis.on_a_gpu.analysis, not_replayed={"an op"}),
    )

    said = assemble(replace(diagnosis, on_a_gpu=there)).summary.verdict

    assert "5 of 52 ops may still run on the CPU" in said
    assert "The program may behave differently there. 1 op could not be replayed." in said


@pytest.mark.parametrize(
    ("explained", "left", "share"),
    [(999, 1, "More than 99 %"), (1, 999, "Less than 1 %"), (7, 0, "100 %")],
)
def test_only_everything_is_100_percent(
    report: Any,  # noqa: ANN401
    explained: int,
    left: int,
    share: str,
) -> None:
    ops = [op("a", "Eig", us(0, explained)), *([op("b", "MatMul", us(1000, left))] if left else [])]
    made = report(host(line("t")(*ops)), BUSY)

    assert f"{share} of " in made.summary.verdict


def test_a_tpu_is_no_gpu_that_the_machine_has(report: Any) -> None:  # noqa: ANN401
    made = report(
        host(line("python")(eager("Add", us(0, 5)))),
        plane("/device:TPU:0", line("XLA Ops")(event("fusion", us(0, 9)))),
    )

    assert "GPU" not in made.summary.verdict
    assert {rule.cause: rule.status for rule in made.rules}["no_gpu_visible"] == "not_applicable"


def test_a_device_of_another_kind_is_no_missing_gpu(report: Any) -> None:  # noqa: ANN401
    made = report(
        host(thread("tf_Compute", 1)(executor(us(0, 90))(send("x", "y", us(1, 2), target="XPU:0"))))
    )

    assert "no_gpu_visible" not in {finding.cause for finding in made.findings}
    assert made.summary.verdict.startswith("A pluggable device was used")


@pytest.mark.parametrize("kind", ["work_of_child_processes", "work_after_the_recording"])
def test_work_that_was_not_recorded_is_said_to_be_missing(kind: str) -> None:
    note = Note(
        id=kind,
        severity="warning",
        message="not recorded: processes that used 8 s; do it here",
    )
    example = Example(title="", ops=({"name": "Mul", "type": "Mul"},))

    def said(note: Note) -> str:
        capture_file = CaptureFile(tool="", host="h", complete=True, notes=(note,))
        return assemble(ta.diagnose(captured(example.run(), capture_file, (None,)))).summary.verdict

    assert said(note).endswith(". Not recorded: processes that used 8 s.")
    assert "processes" not in said(replace(note, severity="info"))
