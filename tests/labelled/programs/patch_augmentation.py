"""Learns a denoising filter from noisy patches, which an input pipeline cuts and selects."""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf

FIXED = set(sys.argv[1:])

pictures = np.random.default_rng(3).random((24, 32, 32), dtype=np.float32)


def contrast(picture):
    centred = picture - tf.reduce_mean(picture)  # cpu: Sub, Mean = host_pipeline
    # cpu: * = host_pipeline
    return centred / (tf.math.reduce_std(picture) + 1e-3)


def is_lively(picture):
    return tf.reduce_sum(tf.abs(picture)) > 300.0  # cpu: Sum, Abs, Greater = host_pipeline


weights = tf.Variable(tf.ones([32, 32]) / 32)


@tf.function
def step(batch):
    if "host_pipeline" in FIXED:
        batch = tf.where(is_lively(batch), contrast(batch), batch)
    with tf.GradientTape() as tape:
        guess = tf.matmul(batch, weights)
        loss = tf.reduce_mean(tf.math.squared_difference(guess, batch))
    weights.assign_sub(tape.gradient(loss, weights))
    return loss


data = tf.data.Dataset.from_tensor_slices(pictures)
if "host_pipeline" not in FIXED:
    data = data.map(contrast, num_parallel_calls=2).filter(is_lively)
for _ in range(3):
    for batch in data.batch(8).prefetch(1):
        loss = step(batch)
print(f"loss {float(loss):.3f}")
