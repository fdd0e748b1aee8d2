"""Questions that users asked in public about device scopes, functions and Python callbacks."""

from __future__ import annotations

import numpy as np
import tensorflow as tf


# tensorflow/tensorflow#34231: is a function in a CPU scope slower than the same ops eagerly?
@tf.function
def measure(x):
    for _ in range(3):
        x = tf.matmul(x, x)  # cpu: * = caller_device_scope_cpu!
    return x


with tf.device("/cpu:0"):
    measure(tf.zeros([20, 20]))  # cpu: * = explicit_cpu_placement!
    measure(tf.zeros([20, 20]))  # cpu: * = explicit_cpu_placement!


# tensorflow/tensorflow#37488: where does numpy_function run?
@tf.function
def doubled(x):
    y = tf.numpy_function(lambda v: np.float32(v * 2), [x], tf.float32)  # cpu: * = python_callback!
    return tf.sqrt(tf.ensure_shape(y, [4]))


doubled(tf.ones([4]))
doubled(tf.ones([4]))


# tensorflow/tensorflow#28458: has map_fn a GPU implementation?
@tf.function
def mapped(x):
    return tf.map_fn(lambda row: tf.reduce_sum(row * row), x)


mapped(tf.ones([3, 4]))
mapped(tf.ones([3, 4]))
