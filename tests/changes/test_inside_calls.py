"""Ops that a function of TensorFlow creates inside: no advice on their dtypes."""

import pytest

import traceanalyzer as ta
from tests.emulator.captures import captured
from traceanalyzer.causes.knowledge.inside_calls import caller_of
from traceanalyzer.changes import changes_of


@pytest.mark.parametrize(
    ("op", "line", "caller"),
    [
        ("TensorListSetItem", "y = tf.vectorized_map(f, y)", "tf.vectorized_map"),
        ("UnsortedSegmentSum", "y = tf.vectorized_map(f, y)", "tf.vectorized_map"),
        ("TensorListReserve", "y = tf.map_fn(f, rows, dtype=tf.int32)", "tf.map_fn"),
        ("TensorListPushBack", "slopes = tape.gradient(loss, w)", "tape.gradient"),
        ("BatchMatMulV2", "found = tape.batch_jacobian(y, x)", "tape.batch_jacobian"),
        ("ScatterNd", "table = tf.math.confusion_matrix(y, guessed)", "tf.math.confusion_matrix"),
        ("ScatterNd", "table = tf.scatter_nd(at, rows, [9])", ""),
        ("UnsortedSegmentSum", "y = tf.math.unsorted_segment_sum(x, at, 3)", ""),
        ("MatrixDiagV3", "y = tf.linalg.diag(x)", ""),
        ("Mean", "y = tf.vectorized_map(lambda x: tf.reduce_mean(x), rows)", ""),
        ("MatMul", "y = tf.exp(x) @ w", ""),
        ("TensorListSetItem", "found = found.write(step, tf.exp(x))", ""),
        ("TensorListReserve", "for row in rows:", ""),
        ("ScatterNd", "y = mine(x)", ""),
        ("ScatterNd", "table = tf.math.confusion_matrix(", ""),
        ("NoSuchOp", "y = tf.exp(x)", ""),
        ("Mean", None, ""),
    ],
)
def test_an_op_is_made_inside_a_call_that_does_not_create_it_directly(
    op: str, line: str | None, caller: str
) -> None:
    assert caller_of(op, line) == caller


_SHUFFLED_NOISE = """
import tensorflow as tf

noise = tf.random.Generator.from_seed(4)


def louder(clip):
    gain = noise.uniform((), 0.5, 2.0)
    return tf.roll(clip * gain, noise.uniform((), 0, 9, dtype=tf.int32), axis=0)


@tf.function
def prepared(clips):
    return tf.reduce_sum(tf.vectorized_map(louder, clips))


clips = tf.ones((6, 40))
for _ in range(3):
    prepared(clips)
"""


@pytest.mark.slow
@pytest.mark.parametrize("gpus", [0, 1])
def test_loops_of_vectorized_map_have_one_change_at_its_line(gpus: int) -> None:
    """On the emulated GPU, only those of the loops' ops have a time that are on the CPU."""
    run = captured(_SHUFFLED_NOISE.removeprefix("\n"), gpus=gpus).run()
    diagnosis = ta.diagnose(run)
    there = diagnosis.on_a_gpu
    findings = [*diagnosis.findings, *(there.findings if there is not None else ())]

    found = [change for change in changes_of(diagnosis) if change.is_by_placement]

    (loops,) = [change for change in found if change.place == ("train.py", 13)]
    assert "tf.vectorized_map" in loops.title
    assert ("in loops" in loops.detail) == (not gpus)
    texts = [f"{change.title} {change.instead} {change.around}" for change in found]
    texts += [fix.text for finding in findings for fix in finding.fixes]
    assert not [text for text in texts if _names_a_dtype(text)]


def _names_a_dtype(text: str) -> bool:
    return any(words in text for words in ("TensorArray(", "as float", "to float", "tf.cast"))
