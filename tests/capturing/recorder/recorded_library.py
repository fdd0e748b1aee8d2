"""A library that `recorded_program.py` uses; it is installed into a folder named site-packages."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import tensorflow as tf

if TYPE_CHECKING:
    from collections.abc import Iterator


def on_cpu(x: tf.Tensor) -> tf.Tensor:
    with tf.device("CPU:0"):  # at: library_scope
        return tf.exp(x)  # at: library_op


def counter() -> tf.Variable:
    return tf.Variable(0.0, name="of_library")  # at: library_variable


@contextmanager
def cpu() -> Iterator[None]:
    with tf.device("CPU:0"):  # at: library_helper_scope
        yield


class Lazy:
    """Becomes a tensor when an op asks for it, by way of other ops, as a variable of Keras 3."""

    def __init__(self, value: tf.Variable) -> None:
        self._value = value

    def __tf_tensor__(self, dtype: tf.DType | None = None, name: str | None = None) -> tf.Tensor:
        del dtype, name
        return tf.identity(self._value)
