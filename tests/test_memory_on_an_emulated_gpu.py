"""A program that goes to the CPU for want of memory, captured on an emulated GPU with little of it.

What is said of it rests on what TensorFlow itself told of its allocator and raised.
"""

import pytest

import traceanalyzer as ta
from tests.emulator.captures import captured
from traceanalyzer.model import FindingRecord, Report
from traceanalyzer.report.assemble import assemble

PROGRAM = """\
import tensorflow as tf
with tf.device("/CPU:0"):
    table = tf.Variable(tf.ones([20000, 64]), name="table")
with tf.device("/CPU:0"):
    small = tf.Variable(tf.ones([64, 64]), name="small")
@tf.function
def step(ids):
    return tf.matmul(tf.gather(table, ids), small)
for _ in range(3):
    step(tf.constant([1, 2, 3], tf.int64))
try:
    tf.zeros([1 << 20, 1 << 14])
except tf.errors.ResourceExhaustedError:
    with tf.device("/CPU:0"):
        tf.linalg.matmul(tf.ones([300, 300]), tf.ones([300, 300]))
"""
MEMORY = 4 << 20  # 4.19 MB, which the table's 5.12 MB exceed


@pytest.fixture(scope="module")
def report() -> Report:
    return assemble(ta.diagnose(captured(PROGRAM, memory=MEMORY).run()))


def of(report: Report, cause: str, title: str) -> FindingRecord:
    (found,) = [f for f in report.findings if f.cause == cause and title in f.title]
    return found


def test_the_handler_and_its_scope_are_certain(report: Report) -> None:
    found = of(report, "memory_pressure", "After a ResourceExhaustedError")

    assert (found.certainty, found.sub_reason) == ("certain", "caught")
    assert "MatMul" in {op.type for op in found.ops}
    shown = {(e.kind, getattr(e.where, "line", None)) for e in found.evidence}
    assert {("error", 12), ("handler", 13), ("requested_device", 14)} <= shown
    figures = [e.text for e in found.evidence if e.kind == "allocator"]
    assert "68.7 GB were requested from GPU_0_bfc" in figures
    assert any(f.startswith("GPU:0 used at most ") and "of the 4.19 MB" in f for f in figures)


def test_a_table_that_does_not_fit_is_likely_there_for_that(report: Report) -> None:
    found = of(report, "resource_on_cpu", "table")

    assert found.certainty == "certain"
    assert found.modifiers == ("memory_pressure",)
    text = " ".join(e.text for e in found.evidence)
    assert "table is 5.12 MB, and GPU:0 used at most " in text
    assert "of the 4.19 MB that TensorFlow may use on it: the data does not fit" in text
    assert "the data does not fit, which is likely" in text


def test_of_a_small_one_memory_is_ruled_out(report: Report) -> None:
    found = of(report, "resource_on_cpu", "small")

    assert found.modifiers == ()
    (because,) = [r.because for r in found.ruled_out if r.cause == "memory_pressure"]
    assert because.startswith("small is 16.4 kB, and GPU:0 used at most ")


def test_what_the_memory_did_is_answered(report: Report) -> None:
    (told,) = [b.answer for b in report.myths if b.id == "memory"]

    assert told.startswith("GPU memory peaked at ")
    assert told.endswith("TensorFlow raises ResourceExhaustedError (once in this run).")
