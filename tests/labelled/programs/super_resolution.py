"""Enlarges height maps, in double precision as the surveyors want them."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])
DTYPE = tf.float32 if "dtype_unsupported" in FIXED else tf.float64

tf.random.set_seed(5)
first = tf.Variable(tf.random.normal([3, 3, 1, 8], stddev=0.2, dtype=DTYPE))
second = tf.Variable(tf.random.normal([3, 3, 8, 4], stddev=0.2, dtype=DTYPE))


def enlarged(low):
    hidden = tf.nn.relu(tf.nn.conv2d(low, first, 1, "SAME"))
    parts = tf.nn.conv2d(hidden, second, 1, "SAME")
    return tf.nn.depth_to_space(parts, 2)  # cpu: DepthToSpace = dtype_unsupported


@tf.function
def step(high):
    low = tf.nn.avg_pool2d(high, 2, 2, "VALID")
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(enlarged(low) - high))
    # cpu: SpaceToDepth = dtype_unsupported
    gradients = tape.gradient(loss, [first, second])
    for variable, gradient in zip([first, second], gradients):
        variable.assign_sub(tf.constant(0.05, DTYPE) * gradient)
    return loss


for _ in range(3):
    loss = step(tf.random.uniform([2, 16, 16, 1], dtype=DTYPE))
print(f"loss {float(loss):.4f}")
