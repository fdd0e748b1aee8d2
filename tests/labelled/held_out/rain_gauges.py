"""Learns floods from rain gauges that send whole numbers; the host finds their highest."""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf

FIXED = set(sys.argv[1:])
HOST = None if "explicit_cpu_placement" in FIXED else "/CPU:0"
READINGS = tf.float32 if "dtype_unsupported" in FIXED else tf.int16

gauges = tf.constant(np.random.default_rng(19).integers(0, 300, size=(30, 24)), READINGS)
floods = tf.constant(np.random.default_rng(20).integers(0, 2, size=(30, 1)), tf.float32)


class Model(tf.Module):
    def __init__(self):
        super().__init__()
        self.kernel = tf.Variable(tf.zeros([24, 1]))

    @tf.function
    def step(self, readings, labels):
        with tf.device(HOST):
            # cpu: Max = explicit_cpu_placement + dtype_unsupported
            highest = tf.reduce_max(readings, axis=0)
        scale = tf.cast(highest, tf.float32) + 1.0
        inputs = tf.cast(readings, tf.float32) / scale
        with tf.GradientTape() as tape:
            logits = tf.matmul(inputs, self.kernel)
            losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(losses)
        self.kernel.assign_sub(0.1 * tape.gradient(loss, self.kernel))
        return loss


model = Model()
for _ in range(4):
    loss = model.step(gauges, floods)
print(f"loss {float(loss):.4f}")
