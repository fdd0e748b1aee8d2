"""Classifies tones by spectra, which a tf.data pipeline computes from waves."""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf

FIXED = set(sys.argv[1:])

rng = np.random.default_rng(5)
pitches = rng.integers(0, 4, size=96)
times = np.arange(1024) / 1024
waves = np.sin(2 * np.pi * times * (40 + 30 * pitches[:, None])).astype("float32")
waves += 0.3 * rng.normal(size=waves.shape).astype("float32")


def spectra(wave):
    loud = wave / tf.reduce_max(tf.abs(wave))  # cpu: RealDiv, Max, Abs = host_pipeline
    # cpu: Square, ComplexAbs, RFFT = host_pipeline
    power = tf.math.square(tf.abs(tf.signal.rfft(loud)))
    return tf.math.log1p(power[..., :256])  # cpu: Log1p, StridedSlice = host_pipeline


kernel = tf.Variable(tf.zeros([256, 4]), name="kernel")


@tf.function
def step(batch, labels):
    inputs = spectra(batch) if "host_pipeline" in FIXED else batch
    with tf.GradientTape() as tape:
        logits = tf.matmul(inputs, kernel)
        losses = tf.nn.softmax_cross_entropy_with_logits(labels, logits)
        loss = tf.reduce_mean(losses)
    kernel.assign_sub(0.1 * tape.gradient(loss, kernel))
    return loss


data = tf.data.Dataset.from_tensor_slices((waves, np.eye(4, dtype="float32")[pitches]))
if "host_pipeline" not in FIXED:
    data = data.map(lambda wave, label: (spectra(wave), label))
for batch, labels in data.batch(32).repeat(3):
    loss = step(batch, labels)
print(f"loss {float(loss):.3f}")
