"""The graphs of a program that goes on long after its first: none is missed, none comes again."""

import re
from collections import Counter

import pytest

from tests.emulator.captures import captured
from traceanalyzer.capture_file.document import CaptureFile

_PROGRAM = """
import ctypes
import os
import time

import tensorflow as tf


def settle():
    while os.path.isdir(dumps):
        time.sleep(0.05)


libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
dumps = libc.getenv(b"TF_DUMP_GRAPH_PREFIX").decode()
assert dumps.startswith("/proc/self/fd/")
weight = tf.Variable(2.0)
late = tf.data.Dataset.range(4).map(lambda n: n * 3)


@tf.function
def first(x):
    return x * weight


@tf.function
def second(x):
    return x + weight


numbers = tf.data.Dataset.range(4).map(lambda n: n + 1)
first(tf.constant(1.0))
list(numbers)
list(late)
settle()
for _ in range(20):
    list(numbers)
    first(tf.constant(1.0))
assert not os.path.isdir(dumps)
second(tf.constant(1.0))
settle()
with tf.device("/CPU:1"):
    first(tf.constant(1.0))
settle()
list(tf.data.Dataset.range(4).map(lambda n: n - 1))
settle()
"""


@pytest.fixture(scope="module")
def capture_file() -> CaptureFile:
    two_devices = (
        "import tensorflow as tf\n"
        "cpu = tf.config.list_physical_devices('CPU')[0]\n"
        "tf.config.set_logical_device_configuration(\n"
        "    cpu, [tf.config.LogicalDeviceConfiguration()] * 2\n"
        ")\n"
    )
    return captured(two_devices + _PROGRAM, gpus=0).capture_file()


def test_every_function_is_there_once_with_its_answer_and_what_ran(
    capture_file: CaptureFile,
) -> None:
    found = Counter(
        re.sub(r"^__inference_|_\d+$", "", function.name)
        for function in capture_file.functions
        for instance in function.instances
        if all(instance.assigned) and instance.partitions
    )
    assert found == {"first": 2, "second": 1, "Dataset_map_lambda": 3}
