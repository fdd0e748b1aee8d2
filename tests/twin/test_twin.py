"""What is predicted without a GPU is what TensorFlow does with one, in programs that broke it."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import traceanalyzer as ta
from tests.emulator.oracle import the_oracle
from tests.twin.capturing import Captured, capture
from tests.twin.comparing import compare

if TYPE_CHECKING:
    from tests.twin.comparing import Twin

_PROGRAMS: Final = sorted(Path(__file__).with_name("programs").glob("*.py"))
_CAPTURE: Final = "tests.labelled.captured_in_fork:capture"
_FAST: Final = {"optimizer_slots"}  # for every test run; the others take seconds each


def _forked(program: Path, logdir: Path, gpus: int) -> Captured:
    """Capture a program in a fork of a process that has imported TensorFlow."""
    outcome = the_oracle().run(_CAPTURE, str(program), str(logdir), 2, gpus=gpus)
    run = ta.load(logdir)
    return Captured(
        exit_code=outcome.exit_code,
        seconds=0.0,
        cpu_seconds=0.0,
        run=run,
        capture_file=run.hosts[0].capture_file,
        stderr=outcome.stderr,
    )


def _twin(program: Path, logdir: Path) -> Twin:
    return compare(_forked(program, logdir / "0", 0), _forked(program, logdir / "1", 1))


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(p, id=p.stem, marks=[] if p.stem in _FAST else pytest.mark.slow)
        for p in _PROGRAMS
    ],
)
def test_what_is_predicted_is_what_tensorflow_does(program: Path, tmp_path: Path) -> None:
    twin = _twin(program, tmp_path)
    assert twin.is_whole, twin.status
    assert not twin.wrong
    assert not twin.missed


@pytest.mark.slow
def test_a_wrong_prediction_and_a_missed_op_are_found(tmp_path: Path) -> None:
    """The check can fail: here the program asks for other devices where there is a GPU."""
    program = tmp_path / "program.py"
    program.write_text(
        "import tensorflow as tf\n"
        "has_gpu = tf.random.normal([]).device.endswith('GPU:0')\n"
        "x = tf.random.normal([64, 64])\n"
        "with tf.device(None if has_gpu else '/cpu:0'):\n"
        "    tf.linalg.matmul(x, x)\n"
        "with tf.device('/cpu:0' if has_gpu else None):\n"
        "    tf.linalg.inv(x)\n"
    )
    twin = _twin(program, tmp_path)
    assert [op.split()[0] for op in twin.wrong] == ["MatMul"]
    assert [op.split()[0] for op in twin.missed] == ["MatrixInverse"]
    assert not twin.certain


_WORK: Final = """
import contextlib, os
import tensorflow as tf
x = tf.random.normal([16, 16])

@tf.function
def step(x, v):
    return tf.linalg.matmul(x, v)

def train(kind=None):
    v = tf.Variable(tf.cast(x, kind or tf.float32))
    for _ in range(3):
        step(tf.cast(x, v.dtype), v)
        tf.linalg.det(x)

"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [
        """
        def on_the_cpu():
            with tf.device("/cpu:0"):
                train()
        train() if tf.config.list_physical_devices("GPU") else on_the_cpu()
        """,
        """
        kind = "GPU" if tf.test.gpu_device_name() else "CPU"
        with tf.device(f"/{kind}:0"):
            train()
        """,
        """
        gpus = tf.config.list_logical_devices("GPU")
        with contextlib.nullcontext() if gpus else tf.device("/cpu:0"):
            train()
        """,
        "train(tf.float32 if tf.test.is_gpu_available() else tf.int32)",
        """
        where = "/gpu:0" if tf.config.get_visible_devices("GPU") else "/cpu:0"
        with tf.distribute.OneDeviceStrategy(where).scope():
            train()
        """,
        """
        def on_the_cpu():
            with tf.device("/cpu:0"):
                train()
        tf.config.set_soft_device_placement(False)
        try:
            with tf.device("/gpu:0"):
                train()
        except tf.errors.InvalidArgumentError:
            on_the_cpu()
        """,
        # A question that the recorder does not know.
        """
        where = "/gpu:0" if os.environ.get("TWIN_EMULATOR") else "/cpu:0"
        with tf.device(where):
            train()
        """,
    ],
)
def test_what_a_program_chooses_by_the_gpus_it_finds_is_never_certain(
    source: str, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(_WORK + textwrap.dedent(source))
    without = capture([str(program)], gpus=0, logdir=tmp_path / "0")
    emulated = capture([str(program)], gpus=1, logdir=tmp_path / "1")
    twin = compare(without, emulated)
    assert twin.is_whole, twin.status
    assert not twin.certain


@pytest.mark.slow
def test_a_program_that_crashes_with_a_gpu_is_no_agreement(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os\nimport tensorflow as tf\n"
        "tf.function(tf.strings.length)(tf.constant(['a']))\n"
        "if tf.config.list_physical_devices('GPU'):\n"
        "    os.abort()\n"
    )
    without = capture([str(program)], gpus=0, logdir=tmp_path / "0")
    emulated = capture([str(program)], gpus=1, logdir=tmp_path / "1")
    twin = compare(without, emulated)
    assert not twin.is_whole
    assert "StringLength" in " ".join(twin.right)  # the capture file shows it


@pytest.mark.slow
def test_what_is_predicted_to_be_computed_on_the_host_of_a_gpu_is(tmp_path: Path) -> None:
    """Int32 arithmetic: its device is the GPU, its values are in host memory."""
    program = _PROGRAMS[0].with_name("int32_arithmetic.py")
    without, emulated = _forked(program, tmp_path / "0", 0), _forked(program, tmp_path / "1", 1)
    assert without.run is not None
    assert emulated.run is not None
    of = ta.diagnose(without.run).on_a_gpu
    assert of is not None
    predicted = {(s.type, s.line) for s in of.on_host.values() if s.is_eager}
    ops = emulated.run.ops
    on_host = ops[(ops["placement"] == "host_memory") & ops["is_eager"].astype(bool)]
    is_there = {
        (str(row.type), int(row.source_line))
        for row in on_host.itertuples()
        if row.type != "VarHandleOp"  # a handle, which is no data
    }
    assert predicted == is_there
    assert {op for op, _ in is_there} >= {"AddV2", "Sum"}
