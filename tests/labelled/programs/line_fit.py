"""Fits a plane to measurements, on a machine whose GPU another job is to have."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])
if "no_gpu_visible" not in FIXED:
    tf.config.set_visible_devices([], "GPU")

inputs = tf.random.stateless_uniform([256, 3], (1, 2))  # cpu: * = no_gpu_visible
targets = tf.linalg.matvec(inputs, [1.0, -2.0, 0.5])  # cpu: * = no_gpu_visible
slope = tf.Variable([0.0, 0.0, 0.0])  # cpu: * = no_gpu_visible


@tf.function
def step():
    with tf.GradientTape() as tape:
        residuals = tf.linalg.matvec(inputs, slope) - targets  # cpu: * = no_gpu_visible
        loss = tf.reduce_mean(tf.square(residuals))  # cpu: * = no_gpu_visible
    slope.assign_sub(0.5 * tape.gradient(loss, slope))  # cpu: * = no_gpu_visible
    return loss


for _ in range(5):
    loss = step()
print(f"loss {float(loss):.4f}")
