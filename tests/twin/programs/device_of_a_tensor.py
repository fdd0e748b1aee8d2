"""A program requests the devices of its tensors; some are on the CPU by its own words."""

import numpy as np
import tensorflow as tf


@tf.function
def double(x: tf.Tensor) -> tf.Tensor:
    return x * 2.0


x = tf.random.normal([16, 16])
with tf.device("/cpu:0"):
    made = tf.random.normal([16, 16])
    copied = tf.identity(x)
    constant = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    table = tf.Variable(x)
free = tf.matmul(x, x)
numbers = tf.range(16)
read = table.read_value()
looped = made

for _ in range(3):
    with tf.device(made.device):
        tf.linalg.inv(x)
    with tf.device(copied.device):
        tf.linalg.det(x)
    with tf.device(x.cpu().device):
        tf.linalg.trace(x)
    with tf.device(constant.device):
        tf.cumsum(x)
    with tf.device(made.backing_device):
        tf.math.erf(x)
    with tf.device(read.device):
        tf.math.tan(x)
    with tf.device(tf.strings.join(["a", "b"]).device):
        tf.math.sinh(x)
    with tf.device(looped.device):
        looped = tf.math.tanh(looped)
    for element in tf.data.Dataset.from_tensors(np.ones([3], "f")):
        with tf.device(element.device):
            tf.math.expm1(element)

    with tf.device(free.device):
        tf.math.erfc(x)
    with tf.device(free.backing_device):
        tf.math.sin(x)
    with tf.device(numbers.device):
        tf.math.lgamma(x)
    with tf.device(tf.constant([1.0]).device):
        tf.math.digamma(x)
    with tf.device(double(x).device):
        tf.math.cosh(x)
