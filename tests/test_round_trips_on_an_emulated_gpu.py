"""Round trips of a real program, captured on an emulated GPU: by the graph that TensorFlow ran."""

import pytest

import traceanalyzer as ta
from tests.emulator.captures import captured
from traceanalyzer.model import Report
from traceanalyzer.model.figures import RoundTripRecord
from traceanalyzer.report.assemble import assemble

PROGRAM = """\
import tensorflow as tf
weights = tf.Variable(tf.ones([32, 32]))
@tf.function
def asked(x):
    y = tf.matmul(x, weights)
    with tf.device("/CPU:0"):
        y = tf.nn.softmax(tf.cumsum(y))
    return tf.matmul(y, weights)
@tf.function
def as_text(x):
    y = tf.strings.to_number(tf.strings.as_string(tf.matmul(x, weights)))
    return tf.matmul(tf.ensure_shape(y, [32, 32]), weights)
@tf.function
def one_way(x):
    with tf.device("/CPU:0"):
        y = tf.nn.softplus(x)
    return y
for _ in range(3):
    asked(tf.ones([32, 32]))
    as_text(tf.ones([32, 32]))
    one_way(tf.ones([32, 32]))
"""


@pytest.fixture(scope="module")
def report() -> Report:
    return assemble(ta.diagnose(captured(PROGRAM).run()))


def of(report: Report, function: str) -> list[RoundTripRecord]:
    return [island for island in report.round_trips if island.function == function]


def test_ops_that_a_scope_keeps_on_the_cpu_can_go_to_the_gpu(report: Report) -> None:
    (island,) = of(report, "asked")

    # oneDNN, where the CPU has what it needs, has a softmax of its own.
    assert [op.type.removeprefix("_Mkl") for op in island.ops] == ["Cumsum", "Softmax"]
    assert {op.line for op in island.ops} == {7}
    # What an op on an emulated GPU sends leaves no event: the graph says that it must.
    assert (island.certainty, island.arriving.count) == ("likely", None)
    assert island.leaving.count is not None
    assert island.leaving.count > 0
    assert island.cannot_move == ()


def test_ops_that_have_no_gpu_kernel_stay(report: Report) -> None:
    (island,) = of(report, "as_text")

    assert [op.type for op in island.ops] == ["AsString", "StringToNumber"]
    assert set(island.cannot_move) == {op.name for op in island.ops}


def test_what_does_not_go_back_is_no_round_trip(report: Report) -> None:
    assert of(report, "one_way") == []
