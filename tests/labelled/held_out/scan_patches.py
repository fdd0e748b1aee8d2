"""Learns to tell healthy tissue in scans that are kept in double precision, cut into patches."""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf

FIXED = set(sys.argv[1:])
PRECISION = tf.float32 if "dtype_unsupported" in FIXED else tf.float64
STATISTICS = None if "explicit_cpu_placement" in FIXED else "/device:CPU:0"

rng = np.random.default_rng(17)
scans = tf.constant(rng.normal(size=(8, 32, 32, 1)), PRECISION)
is_healthy = tf.constant(rng.integers(0, 2, (8, 1)), PRECISION)
weights = tf.Variable(tf.zeros([16, 1], PRECISION))


def patches(batch):
    return tf.nn.space_to_depth(batch, 4)  # cpu: SpaceToDepth = dtype_unsupported


@tf.function
def step(batch, labels):
    rows = tf.reduce_max(patches(batch), axis=[1, 2])
    with tf.device(STATISTICS):
        middle = tf.reduce_mean(rows, axis=0)  # cpu: Mean = explicit_cpu_placement
        width = tf.math.reduce_std(rows, axis=0)  # cpu: * = explicit_cpu_placement
    rows = (rows - middle) / (width + 1e-3)
    with tf.GradientTape() as tape:
        logits = tf.matmul(rows, weights)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
        loss = tf.reduce_sum(losses)
    weights.assign_sub(0.05 * tape.gradient(loss, weights))
    return loss


for _ in range(4):
    loss = step(scans, is_healthy)
print(f"loss {float(loss):.4f}")
