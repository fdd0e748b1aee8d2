"""What a report advises, applied to the program: TensorFlow's placer then uses the GPU."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import traceanalyzer as ta
from tests.emulator.oracle import the_oracle

if TYPE_CHECKING:
    from traceanalyzer.findings import Finding

_PROGRAM = """\
import os
os.environ["KERAS_BACKEND"] = "tensorflow"
import keras, numpy as np, tensorflow as tf

images = keras.layers.Resizing(4, 4, {interpolation})
model = keras.Sequential([keras.Input((8, 8, 3)), images, keras.layers.Flatten()])
counts = {variable}

@tf.function
def products():
    counts.assign_add(tf.ones_like(counts))
    return tf.matmul(counts, counts)

@tf.function
def distinct(x):
    {distinct}
    return values, positions

@tf.function
def loss(y_true, y_pred, input_length, label_length):
    {loss}
    return loss

@tf.function
def resized(x):
    return model(x)

products()
distinct(tf.constant([1.0, 2.0, 1.0]))
y_pred = tf.nn.softmax(tf.ones([1, 5, 4]))
loss(tf.constant([[1, 2]]), y_pred, tf.constant([[5]]), tf.constant([[2]]))
resized(tf.ones([2, 8, 8, 3]))
"""
_AS_WRITTEN = {
    "interpolation": 'interpolation="bicubic"',
    "variable": "tf.Variable([[1, 2], [3, 4]])",
    "distinct": "values, positions = tf.raw_ops.UniqueV2(x=x, axis=[0])",
    "loss": ("loss = tf.keras.backend.ctc_batch_cost(y_true, y_pred, input_length, label_length)"),
}


@pytest.fixture(scope="module")
def findings() -> dict[str, Finding]:
    folder = Path(tempfile.mkdtemp(prefix="advice-"))
    (folder / "train.py").write_text(_PROGRAM.format(**_AS_WRITTEN))
    capture = "tests.labelled.captured_in_fork:capture"
    outcome = the_oracle().run(capture, str(folder / "train.py"), str(folder / "logs"), 2, gpus=0)
    assert outcome.exit_code == 0, outcome.error
    of = ta.diagnose(ta.load(folder / "logs")).on_a_gpu
    assert of is not None
    return {f.title.split()[0]: f for f in of.findings}


@pytest.mark.slow
def test_the_advice_for_a_variable_and_for_what_it_is_multiplied_with_agree(
    findings: dict[str, Finding],
) -> None:
    codes = [findings[op].fixes[0].code or "" for op in ("VarHandleOp", "MatMul")]

    assert all("tf.float32" in code for code in codes)


@pytest.mark.slow
def test_a_program_that_follows_its_report_uses_the_gpu(findings: dict[str, Finding]) -> None:
    codes = {
        "interpolation": findings["ResizeBicubic"].fixes[0].code,
        "variable": (findings["VarHandleOp"].fixes[0].code or "").replace("value", "[[1, 2]] * 2"),
        "distinct": findings["UniqueV2"].fixes[0].code,
        "loss": (findings["CTCLoss"].fixes[0].code or "").replace("\n", "\n    "),
    }
    file = Path(tempfile.mkdtemp(prefix="advice-")) / "train.py"
    file.write_text(_PROGRAM.format(**codes))

    outcome = the_oracle().run(file)

    where = {
        (op, device.rpartition("/device:")[2])
        for run in outcome.runs
        if run.function.startswith("__inference_") and run.assigned
        for op, device in zip(run.graph.ops, run.assigned, strict=True)
    }
    moved = {"ResizeBilinear", "MatMul", "AssignAddVariableOp", "Unique", "LogSoftmax"}
    assert {(op, "GPU:0") for op in moved} <= where
    assert not {op for op, device in where if "CPU" in device} & moved
