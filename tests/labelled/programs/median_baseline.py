"""Subtracts a sliding median from signals with NumPy, in the middle of a training step."""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf

FIXED = set(sys.argv[1:])
IN_GRAPH = "python_callback" in FIXED

rng = np.random.default_rng(8)
signals = tf.constant(rng.normal(size=(16, 64)) + np.linspace(0, 4, 64), tf.float32)
targets = tf.constant(rng.normal(size=(16, 1)), tf.float32)
weights = tf.Variable(tf.zeros([64, 1]))


def running_median(rows):
    padded = np.pad(rows, ((0, 0), (2, 2)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 5, axis=1)
    return np.median(windows, axis=-1).astype("float32")


def baseline(rows):
    # cpu: PyFunc = python_callback
    found = tf.roll(rows, 1, 1) if IN_GRAPH else tf.numpy_function(running_median, [rows], "float")
    return tf.ensure_shape(found, rows.shape)


@tf.function
def step():
    clean = signals - baseline(signals)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.matmul(clean, weights) - targets))
    weights.assign_sub(0.01 * tape.gradient(loss, weights))
    return loss


for _ in range(4):
    loss = step()
print(f"loss {float(loss):.3f}")
