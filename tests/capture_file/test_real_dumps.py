"""Dumps of a real program, read as TensorFlow's own protobuf reads them."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.capture_file.capture_files import CPU
from tests.capture_file.test_graphs import assert_same
from traceanalyzer.capture_file.attributes import AttributePool
from traceanalyzer.capture_file.document import CaptureFile
from traceanalyzer.capture_file.dumps import read_dumps

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.capture_file.function_records import Instance

PROGRAM = """
import tensorflow as tf

weights = tf.Variable(tf.ones([4, 4]))

@tf.function
def inner(a):
    return tf.matmul(a, weights, name="inner_mm")

@tf.function
def step(x):
    with tf.device("/CPU:0"):
        x = inner(x)
    for i in tf.range(3):
        x += tf.cast(i, tf.float32)
    return tf.strings.length(tf.strings.as_string(x))

step(tf.ones([4, 4]))
numbers = tf.data.Dataset.range(3).map(lambda n: n + 1)
for _ in range(2):
    for _ in numbers:
        pass

with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    session.run(tf.matmul(tf.ones([2, 2]), tf.ones([2, 2]), name="v1_mm"))
"""


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dumps")
    asked = {
        "TF_DUMP_GRAPH_FMT": "BIN",
        "TF_DUMP_GRAPH_NAME_FILTER": "*",
        "TF_DUMP_GRAPH_PREFIX": str(folder),
    }
    script = tmp_path_factory.mktemp("program") / "program.py"  # AutoGraph reads the source
    script.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, script],
        env={**os.environ, **asked, "CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


@pytest.fixture(scope="module")
def capture_file(dumps: Path) -> CaptureFile:
    pool = AttributePool()
    functions, notes = read_dumps(dumps, pool, [])
    assert not notes
    return CaptureFile(
        tool="", host="", complete=True, functions=tuple(functions), attributes=tuple(pool.sets)
    )


def instance_of(capture_file: CaptureFile, beginning: str) -> Instance:
    (function,) = (f for f in capture_file.functions if f.name.startswith(beginning))
    return function.instances[0]


def test_each_dump_is_read_as_protobuf_reads_it(dumps: Path) -> None:
    files = sorted(dumps.glob("*.pb"))

    for file in files:
        assert_same(file.read_bytes())

    assert len(files) > 20


def test_a_function_is_there_with_requests_answers_and_what_ran(capture_file: CaptureFile) -> None:
    instance = instance_of(capture_file, "__inference_step_")
    graph = instance.input
    product = next(at for at, node in enumerate(graph.origin_nodes) if node == "inner_mm")

    assert graph.ops[product] == "MatMul"
    assert graph.devices[product] == "/device:CPU:0"
    assert graph.origin_functions[product].startswith("__inference_inner_")
    assert capture_file.attributes[graph.attributes[product]]["T"] == "float"
    assert set(instance.assigned) == {CPU}
    assert [p.device for p in instance.partitions] == [CPU]
    assert graph.producer > 1000
    arguments = [at for at, op in enumerate(graph.ops) if op == "_Arg"]
    assert [graph.devices[at] for at in arguments] == [CPU, CPU]


def test_a_function_that_was_instantiated_twice_is_there_once(capture_file: CaptureFile) -> None:
    assert instance_of(capture_file, "__inference_Dataset_map").count >= 2


def test_a_session_of_version_1_is_there(capture_file: CaptureFile) -> None:
    instance = instance_of(capture_file, "unknown_graph")

    assert "v1_mm" in instance.input.names
    assert set(instance.assigned) == {CPU}
    assert "v1_mm" in instance.partitions[0].names
