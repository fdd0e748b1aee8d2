"""Trains an edge filter, its gradient by the kernel that always adds in the same order."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])
# TensorFlow's plain kernel for the gradient of a filter, which only the CPU has by this name.
CHOSEN = {} if "attr_unsupported" in FIXED else {"Conv2DBackpropFilter": "eigen_tensor"}

tf.random.set_seed(6)
pictures = tf.random.uniform([4, 12, 12, 1])
outlines = pictures - tf.roll(pictures, 1, axis=2)
taps = tf.Variable(tf.random.normal([3, 3, 1, 1], stddev=0.1))
graph_of_now = tf.compat.v1.get_default_graph


@tf.function
def step(pictures, outlines):
    with tf.GradientTape() as tape:
        found = tf.nn.conv2d(pictures, taps, 1, "SAME")
        loss = tf.reduce_mean(tf.square(found - outlines))
    with graph_of_now()._kernel_label_map(CHOSEN):  # noqa: SLF001 - has no public name
        # cpu: * = attr_unsupported
        gradient = tape.gradient(loss, taps)
    taps.assign_sub(0.2 * gradient)
    return loss


for _ in range(4):
    loss = step(pictures, outlines)
print(f"loss {float(loss):.4f}")
