"""Functions of datasets that a program makes over and over."""

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from traceanalyzer.capturing.recorder.functions import FunctionRecorder


def graph_of(work: Callable[[Any], Any], of: tf.DType = tf.float32) -> tf.Graph:
    return tf.function(work).get_concrete_function(tf.TensorSpec([], of)).graph


def double(x: tf.Tensor) -> tf.Tensor:
    return x + x


def also_double(x: tf.Tensor) -> tf.Tensor:
    return x + x


def double_on_the_cpu(x: tf.Tensor) -> tf.Tensor:
    with tf.device("/CPU:0"):
        return x + x


@pytest.fixture
def repeated() -> FunctionRecorder:
    found = FunctionRecorder(*[None] * 6)  # type: ignore[arg-type]
    for number in range(3):
        assert not found.is_repeated(f"__inference_Dataset_map_f_{number}", graph_of(double))
    return found


def test_the_first_few_stand_for_the_others(repeated: FunctionRecorder) -> None:
    assert repeated.is_repeated("__inference_Dataset_map_f_30", graph_of(double))
    assert repeated.is_repeated("__inference_Dataset_map_f_40", graph_of(double))
    assert repeated.stand_in == {
        "__inference_Dataset_map_f_30": "__inference_Dataset_map_f_2",
        "__inference_Dataset_map_f_40": "__inference_Dataset_map_f_2",
    }


@pytest.mark.parametrize(
    "graph",
    [graph_of(also_double), graph_of(double_on_the_cpu), graph_of(double, tf.int32)],
    ids=["another line", "another device", "another type"],
)
def test_what_may_be_placed_otherwise_is_another_function(
    repeated: FunctionRecorder, graph: tf.Graph
) -> None:
    assert not repeated.is_repeated("__inference_Dataset_map_f_50", graph)


def read_of(variable: tf.Variable) -> tf.Graph:
    return graph_of(lambda _: variable + variable)


def test_what_reads_another_variable_is_another_function() -> None:
    """Without a GPU all variables are on the CPU, and only one may be with one."""
    found = FunctionRecorder(*[None] * 6)  # type: ignore[arg-type]
    first, second, other_type = tf.Variable(1.0), tf.Variable(1.0), tf.Variable(1)
    for number in range(4):
        is_repeated = found.is_repeated(f"__inference_Dataset_map_f_{number}", read_of(first))
        assert is_repeated is (number == 3)
    assert not found.is_repeated("__inference_Dataset_map_f_50", read_of(second))
    assert not found.is_repeated("__inference_Dataset_map_f_60", read_of(other_type))
