"""Changes for losses that placement does not cause, on traces of real GPUs."""

from pathlib import Path

import pytest

import traceanalyzer as ta
from tests.changes.applied import only_found
from tests.corpus import CORPUS, needs_corpus
from tests.input_pipeline.paced import asked
from tests.labelled import LabelledProgram
from tests.page_kinds import fine
from tests.traces import (
    Event,
    call,
    eager,
    event,
    executor,
    gpu,
    host,
    iterator,
    kernel,
    launch,
    line,
    op,
    send,
    step,
    stream,
    thread,
    us,
    write,
    xspace,
)
from traceanalyzer.changes import Change, changes_of
from traceanalyzer.report.assemble import assemble
from traceanalyzer.step_parts import step_parts

_CNN = "tfgpu-fatma-cnn-sandor"


def changes(folder: str, run: str | None = None) -> tuple[Change, ...]:
    return changes_of(ta.diagnose(ta.load(CORPUS / folder, run=run)))


@needs_corpus
def test_a_small_keras_model_has_advice_on_launches_and_on_values_read_back() -> None:
    """Ten epochs of a small CNN: the GPU waits for launches, and for the loss that is read."""
    diagnosis = ta.diagnose(ta.load(CORPUS / _CNN, run="2021_02_02_12_57_01"))
    found = changes_of(diagnosis)

    assert [change.kind for change in found] == ["runtime", "sync", "runtime"]
    assert not any(change.is_by_placement for change in found)
    assert "jit_compile=True" in found[0].instead
    assert "steps_per_execution" in found[2].instead
    (device,) = step_parts(diagnosis.run)  # the figures that the page shows
    shown_us = device.mean_us()["launch"] + device.mean_us()["runtime"]
    assert found[0].saving.high_us == pytest.approx(shown_us)
    step_us = 5365.5
    for change in found:
        saving = change.saving
        assert saving.share is not None
        assert saving.share * step_us == pytest.approx(saving.high_us, rel=0.01)
        assert saving.share >= 0.02


@needs_corpus
def test_batches_that_the_gpu_waits_for_are_copied_ahead() -> None:
    (copied,) = [c for c in changes(_CNN, "2021_02_02_13_12_57") if c.kind == "input"]

    assert "prefetch_to_device" in copied.instead
    assert copied.saving.high_us == pytest.approx(199, abs=1)
    assert copied.saving.share == pytest.approx(0.043, abs=0.001)


@needs_corpus
@pytest.mark.parametrize("folder", ["jax-rocm-attention", "tpu-xprof-inference2"])
def test_there_is_nothing_to_change_where_tensorflow_placed_no_op(folder: str) -> None:
    assert changes(folder) == ()


def test_short_steps_that_wait_for_ready_batches_have_a_change(tmp_path: Path) -> None:
    """The pipeline keeps up, but 30 % of each step is the time to hand a batch over."""

    def one(number: int) -> Event:
        at = 1000 * number
        stages = iterator("Root", us(at, 300), id=1)(
            iterator("Root::Prefetch", us(at, 300), id=2, parent_id=1)
        )
        return step(number, us(at, 1000))(
            eager("IteratorGetNext", us(at, 300))(asked(us(at, 300), stages)),
            eager("MatMul", us(at + 300, 20))(launch(us(at + 302, 2), number + 1)),
        )

    steps = range(10)
    made = (iterator("Root::Prefetch::Map", us(1000 * k, 50), id=3, parent_id=2) for k in steps)
    kernels = (kernel("gemm", us(1000 * k + 305, 695), correlation=k + 1) for k in steps)
    trace = xspace(
        host(line("python")(map(one, steps)), thread("tf_data_iterator_resource", 1)(made)),
        gpu(0)(stream(13, "Compute")(kernels)),
    )

    found = assemble(ta.diagnose(ta.load(write(tmp_path / "logs", trace))))

    assert found.input_pipeline is not None
    assert found.input_pipeline.verdict == "keeps_up"
    assert "hand over" in found.input_pipeline.text
    (change,) = [each for each in found.changes if each.kind == "input"]
    assert change.title == "Fetch the batches for several steps in one call"
    assert change.saving.high_us == pytest.approx(300)
    assert change.saving.share == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("stage", "advice"),
    [("Root::Map", "prefetch"), ("Root::Prefetch::Map", "num_parallel_calls")],
)
def test_a_pipeline_that_prefetches_is_not_told_to(stage: str, advice: str, tmp_path: Path) -> None:
    found = assemble(ta.diagnose(ta.load(fine(tmp_path, stage))))

    (change,) = [each for each in found.changes if each.kind == "input"]
    assert advice in change.instead


@pytest.mark.parametrize("has_kernels", [True, False])
def test_time_in_the_runtime_is_no_loss_if_the_trace_lacks_the_gpus_kernels(
    tmp_path: Path, *, has_kernels: bool
) -> None:
    """The GPU may have computed meanwhile."""

    def one(number: int) -> Event:
        at = 1000 * number
        ops = [eager(f"Op{k}", us(at + 10 * k, 9)) for k in range(12)]
        return step(number, us(at, 1000))(*ops, call("__inference_f_1", us(at + 130, 869)))

    copies = executor(us(0, 9000))(send("x", "y", us(1, 2)))
    planes = [host(line("python")(*map(one, range(9))), thread("tf_C", 1)(copies))]
    if has_kernels:
        planes.append(gpu(0)(stream(13, "Compute")(kernel("gemm", us(990, 8)))))
    run = ta.load(write(tmp_path / "logs", xspace(*planes)))
    assert run.gpu_used

    saved_us = [c.saving.high_us for c in changes_of(ta.diagnose(run)) if c.kind == "runtime"]

    assert any(us and us > 500 for us in saved_us) == has_kernels


def test_a_session_is_not_told_to_use_a_function(tmp_path: Path) -> None:
    runs = [event("SessionRun", us(1000 * k, 400), id=k) for k in range(9)]
    ops = thread("tf_Compute", 1)(
        executor(us(1000 * k, 400), step=k)(op("y", "MatMul", us(1000 * k + 1, 300)))
        for k in range(9)
    )
    run = ta.load(write(tmp_path / "logs", xspace(host(line("python")(runs), ops))))

    (change,) = [c for c in changes_of(ta.diagnose(run)) if c.kind == "runtime"]

    assert "session.run" in change.instead
    assert "tf.function" not in change.instead
    assert "Keras" not in change.detail


_PYTHON_IN_A_STEP = """
import tensorflow as tf


@tf.function
def step(x):
    return tf.reduce_sum(tf.numpy_function(lambda v: v + 1, [x], tf.float32))


for k in range(6):
    step(tf.fill((64, 64), float(k)))
"""
_ONE_FIT = """
import tensorflow as tf

model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(4)])
model.compile("sgd", "mse")
x, y = tf.ones((64, 8)), tf.ones((64, 4))
model.fit(x, y, validation_data=(x, y), epochs=3, verbose=0)
model.predict(x, verbose=0)
"""
_PREDICT_IN_A_LOOP = """
import tensorflow as tf

model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(4)])
for _ in range(10):
    model.predict(tf.ones((16, 8)), verbose=0)
"""


_PYTHON_IN_A_MAP = """
import time

import tensorflow as tf


def load(x):
    time.sleep(0.02)
    return x


def read(x):
    y = tf.numpy_function(load, [x], tf.float32)
    return tf.ensure_shape(y, [8])


@tf.function
def step(x):
    return tf.reduce_sum(tf.exp(x))


for x in tf.data.Dataset.from_tensor_slices(tf.ones((80, 8))).map(read).batch(4):
    step(x)
"""


def changes_of_program(text: str, folder: Path) -> tuple[Change, ...]:
    path = folder / "train.py"
    path.write_text(text.removeprefix("\n"), encoding="utf-8")
    return only_found(LabelledProgram(path)).all_changes


@pytest.mark.slow
def test_xla_is_not_advised_for_a_step_that_it_cannot_compile(tmp_path: Path) -> None:
    """`jit_compile=True` would make a program with a Python callback fail."""
    found = changes_of_program(_PYTHON_IN_A_STEP, tmp_path)

    assert not [change for change in found if "jit_compile" in change.instead]


@pytest.mark.slow
def test_python_in_a_map_is_to_be_written_with_tensorflow_ops(tmp_path: Path) -> None:
    """More calls at once would take turns: Python has a lock."""
    (slow,) = [c for c in changes_of_program(_PYTHON_IN_A_MAP, tmp_path) if c.kind == "input"]

    assert slow.title == "Write the mapped function with TensorFlow ops"
    assert slow.place == ("train.py", 6)  # the function, not its call


_PYTHON_BETWEEN_OPS = """
import tensorflow as tf


class Scale:
    def __init__(self, by):
        self.by = by

    def louder(self, sound):
        return sound.numpy() * self.by


scale = Scale(2.0)
for k in range(6):
    sound = tf.py_function(func=scale.louder, inp=[tf.fill((8, 8), float(k))], Tout=tf.float32)
    tf.matmul(sound, sound)
"""


@pytest.mark.slow
def test_a_python_function_of_the_program_is_not_a_librarys(tmp_path: Path) -> None:
    """TensorFlow requests the CPU for it, but the line to edit is the function's."""
    found = changes_of_program(_PYTHON_BETWEEN_OPS, tmp_path)

    (python,) = [change for change in found if change.place == ("train.py", 8)]
    assert python.title == "Write the function with TensorFlow ops"
    assert not [change for change in found if "library" in change.title]


@pytest.mark.slow
def test_a_call_of_predict_is_slow_only_in_a_loop(tmp_path: Path) -> None:
    (folder := tmp_path / "one").mkdir()
    once = changes_of_program(_ONE_FIT, folder)
    often = changes_of_program(_PREDICT_IN_A_LOOP, tmp_path)

    assert not [change for change in once if "predict" in change.title]
    assert [c.place for c in often if "predict" in c.title] == [("train.py", 5)]
