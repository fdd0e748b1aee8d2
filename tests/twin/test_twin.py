"""Predictions made without a GPU agree with TensorFlow on an emulated one."""

import functools
import textwrap
from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

import traceanalyzer as ta
from tests.emulator.captures import captured
from tests.twin.capturing import Captured, capture
from tests.twin.comparing import Twin, compare
from traceanalyzer.capture_file.document import CaptureFile
from traceanalyzer.diagnosis import cpu_ops
from traceanalyzer.placement.calls import functions_of_datasets
from traceanalyzer.placement.devices import machine_of, with_gpus
from traceanalyzer.placement.program import ProgramPlacement
from traceanalyzer.report.page_facts import PageFacts

_PROGRAMS: Final = Path(__file__).with_name("programs")
_FAST: Final = {"optimizer_slots"}  # the others take seconds each


@functools.cache
def in_fork(program: Path | str, gpus: int) -> Captured:
    """Capture a program in a fork of a process that has imported TensorFlow."""
    environment = {"HAS_GPU": "1"} if gpus else None
    made = captured(program, gpus=gpus, environment=environment, may_fail=True)
    return Captured(
        exit_code=made.outcome.exit_code,
        cpu_seconds=0.0,
        run=made.run(),
        capture_file=made.capture_file(),
    )


def twin_of(program: Path | str) -> Twin:
    return compare(in_fork(program, 0), in_fork(program, 1))


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(p, id=p.stem, marks=[] if p.stem in _FAST else pytest.mark.slow)
        for p in sorted(_PROGRAMS.glob("*.py"))
    ],
)
def test_the_prediction_is_what_tensorflow_does(program: Path) -> None:
    twin = twin_of(program)
    assert twin.is_whole, twin.status
    assert not twin.wrong
    assert not twin.missed


def test_a_backward_function_gets_the_variables_of_its_loop() -> None:
    """As handles that the forward function returns: each call returns other tensors."""
    capture_file = in_fork(
        "import tensorflow as tf\n"
        "rate = tf.Variable(0.5)\n"
        "@tf.function\n"
        "def decay(x):\n"
        "    for _ in tf.range(3):\n"
        "        x = x * rate\n"
        "    return x\n"
        "for _ in range(4):\n"
        "    with tf.GradientTape() as tape:\n"
        "        last = decay(tf.constant(2.0))\n"
        "    tape.gradient(last, rate)\n",
        0,
    ).capture_file
    assert capture_file is not None
    backward = [s for s in capture_file.signatures if s.is_function and "backward" in s.op]
    assert len(backward) == 1
    handles = [tensor for tensor in backward[0].inputs if tensor.dtype == "resource"]
    assert [capture_file.resource_of(handle) for handle in handles] == [*capture_file.resources]
    placed = ProgramPlacement(capture_file, with_gpus(machine_of(capture_file)))
    assert len({*placed.resources}) == 1
    assert all(
        device == placed.resources[0]
        for each in placed.functions[backward[0].op]
        for node, device in each.placement.devices.items()
        if each.placement.nodes.graph.ops[node] == "VariableShape"
    )


@pytest.mark.slow
def test_a_wrong_prediction_and_a_missed_op_are_found() -> None:
    """The check can fail: here the program asks for other devices where there is a GPU."""
    twin = twin_of(
        "import tensorflow as tf\n"
        "has_gpu = tf.random.normal([]).device.endswith('GPU:0')\n"
        "x = tf.random.normal([64, 64])\n"
        "with tf.device(None if has_gpu else '/cpu:0'):\n"
        "    tf.linalg.matmul(x, x)\n"
        "with tf.device('/cpu:0' if has_gpu else None):\n"
        "    tf.linalg.inv(x)\n"
    )
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

def on_the_cpu():
    with tf.device("/cpu:0"):
        train()

"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [
        'train() if tf.config.list_physical_devices("GPU") else on_the_cpu()',
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
        tf.config.set_soft_device_placement(False)
        try:
            with tf.device("/gpu:0"):
                train()
        except tf.errors.InvalidArgumentError:
            on_the_cpu()
        """,
        # A question that the recorder does not see.
        """
        where = "/gpu:0" if os.environ.get("HAS_GPU") else "/cpu:0"
        with tf.device(where):
            train()
        """,
    ],
)
def test_a_device_that_depends_on_the_gpus_found_is_never_certain(source: str) -> None:
    twin = twin_of(_WORK + textwrap.dedent(source))
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
    assert "StringLength" in " ".join(twin.right)  # the capture file has it


@pytest.mark.slow
def test_ops_that_a_gpu_machine_computes_on_its_host_are_predicted() -> None:
    """Int32 arithmetic: its device is the GPU, its values are in host memory."""
    program = _PROGRAMS / "int32_arithmetic.py"
    without, emulated = in_fork(program, 0).run, in_fork(program, 1).run
    assert without is not None
    assert emulated is not None
    prediction = ta.diagnose(without).on_a_gpu
    assert prediction is not None
    predicted = {(s.type, s.line) for s in prediction.analysis.on_host.values() if s.is_eager}
    ops = emulated.ops
    on_host = ops[(ops["placement"] == "host_memory") & ops["is_eager"].astype(bool)]
    actual = {
        (str(row.type), int(row.source_line))
        for row in on_host.itertuples()
        if row.type != "VarHandleOp"  # a handle, which is no data
    }
    assert predicted == actual
    assert {op for op, _ in actual} >= {"AddV2", "Sum", "Equal", "Shape"}
    # What is placed on the GPU does not count as on the CPU, in neither of them.
    seen = {(str(row.type), row.source_line) for row in cpu_ops(emulated).itertuples()}
    stay = PageFacts(diagnosis=ta.diagnose(without)).stay_on_cpu
    rows = without.ops[without.ops["op_id"].isin(stay)]
    assert {(str(row.type), row.source_line) for row in rows.itertuples()} == seen


@pytest.mark.slow
def test_every_node_of_datasets_functions_is_predicted() -> None:
    program = _PROGRAMS / "dataset_functions.py"
    truth: dict[tuple[str, str], set[str]] = defaultdict(set)
    for function in _capture_file(program, 1).functions:
        for instance in function.instances:
            for name, device in zip(instance.input.names, instance.assigned, strict=True):
                truth[function.name, name].add(device)
    capture_file = _capture_file(program, 0)
    placed = ProgramPlacement(capture_file, with_gpus(machine_of(capture_file)))
    predicted = [
        (name, node, device)
        for name in functions_of_datasets(capture_file)
        for instance in placed.functions[name]
        for at, device in instance.placement.devices.items()
        for node in [instance.placement.nodes.graph.names[at]]
    ]
    assert not [(f, node, device) for f, node, device in predicted if device not in truth[f, node]]
    assert len(predicted) >= 200


def _capture_file(program: Path, gpus: int) -> CaptureFile:
    found = in_fork(program, gpus).capture_file
    assert found is not None
    return found
