"""Ops that belong on the CPU, but that steps wait for: what to do about their time."""

from pathlib import Path

import pytest

import traceanalyzer as ta
from tests.emulator.captures import captured
from tests.report.test_consistency import check
from tests.report.test_first_screen import every, said
from tests.test_costs import gemms, run_of, training
from tests.traces import Event, eager, gpu, host, line, stream, us
from traceanalyzer.model import Report
from traceanalyzer.model import blocks as b
from traceanalyzer.report.text import plain

# A scanner sends drawings as PNG files; the model was exported inside a scope for the CPU.
SERVER = """
import tempfile
import tensorflow as tf


class Reader(tf.Module):
    def __init__(self):
        super().__init__()
        self.weights = tf.Variable(tf.ones([32, 4]))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def read(self, files):
        def one(file):
            rows = tf.io.decode_png(file, channels=1)[:32, :32, 0]
            return tf.nn.softplus(tf.cast(rows, tf.float32))

        with tf.device("/CPU:0"):
            drawings = tf.map_fn(one, files, fn_output_signature=tf.float32)
        return tf.linalg.matmul(drawings, self.weights)


folder = tempfile.mkdtemp()
tf.saved_model.save(Reader(), folder)
drawing = tf.random.stateless_uniform([700, 900, 1], [1, 2], 0, 255, tf.int32)
files = tf.stack([tf.io.encode_png(tf.cast(drawing, tf.uint8))] * 6)
model = tf.saved_model.load(folder)
for _ in range(10):
    model.read(files)
"""
LOADS = 1 + SERVER.split("\n").index("model = tf.saved_model.load(folder)")


@pytest.fixture(scope="module", params=[0, 1])
def served(request: pytest.FixtureRequest) -> Report:
    """The report on the server, without a GPU and with an emulated one."""
    return check(ta.diagnose(captured(SERVER, gpus=request.param).run()))


def test_decoding_in_a_served_model_is_the_first_change_at_the_line_that_loads_it(
    served: Report,
) -> None:
    first = served.changes[0]

    assert first.place is not None
    assert (Path(first.place[0]).name, first.place[1]) == ("train.py", LOADS)
    assert "DecodePng" in first.detail
    assert not first.is_by_placement
    for words in ("client", "worker", "parallel_iterations", "dataset.map"):
        assert words in first.instead
    assert first.saving.share is not None
    assert first.saving.share > 0.1


def test_its_time_is_in_headline_and_bar(served: Report) -> None:
    page = served.page
    assert page is not None

    assert "CPU ops" in said(page) or "of the mean step" in said(page)
    bars = [bar for block in every(page, b.StepBar) if block.unit == "us" for bar in block.bars]
    assert [part.kind for bar in bars for part in bar.parts if part.kind == "cpu_op"]
    for words in ("not your bottleneck", "needs no change", "several steps per call"):
        assert words not in plain(page.next) + plain(page.happened)


def test_no_edit_of_a_graph_that_the_program_does_not_have(served: Report) -> None:
    assert "graph_def" not in " ".join(
        f"{change.title} {change.instead} {change.around}" for change in served.changes
    )
    scope = [change for change in served.changes if "scope" in change.title]
    moved = {op_id for change in scope for op_id in change.op_ids}
    ops = {op.op_id: op.type for f in served.findings for op in f.ops}
    assert not {ops.get(op_id) for op_id in moved} & {"DecodePng", "TensorListGetItem"}


def steps_with(op_type: str, took_us: int) -> Report:
    """A run in which a GPU waits for an op of each step of 100 us."""

    def op(k: int) -> Event:
        return eager(op_type, us(100 * k + 30, took_us))

    steps = (training(k, 100 * k, op(k)) for k in range(4))
    device = stream(13, "Compute")(*(e for k in range(4) for e in gemms(k, 100 * k)))
    return check(ta.diagnose(run_of(host(line("python")(*steps)), gpu(0, device))))


@pytest.mark.parametrize(
    ("op_type", "words"), [("LookupTableFindV2", "look them up"), ("StringJoin", "numbers")]
)
def test_strings_and_tables_are_a_change_if_steps_wait_for_them(op_type: str, words: str) -> None:
    (change,) = [c for c in steps_with(op_type, 40).changes if op_type in c.detail]

    assert words in change.instead
    assert change.saving.high_us == pytest.approx(40)


def test_they_are_none_if_steps_hardly_wait_for_them() -> None:
    assert not [c for c in steps_with("StringJoin", 1).changes if "StringJoin" in c.detail]
