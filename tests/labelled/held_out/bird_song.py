"""Learns which bird sings: a pipeline draws recordings, the GPU computes spectra and the model."""
# run: clean

from __future__ import annotations

import numpy as np
import tensorflow as tf

rng = np.random.default_rng(33)
songs = rng.normal(size=(48, 512)).astype("float32")
birds = np.eye(3, dtype="float32")[rng.integers(0, 3, size=48)]
kernel = tf.Variable(tf.zeros([33, 3]), name="kernel")


def louder(song, bird):
    return song * 2.0, bird


@tf.function
def step(batch, labels):
    spectra = tf.abs(tf.signal.stft(batch, 64, 32))
    inputs = tf.math.log1p(tf.reduce_mean(spectra, axis=1))
    with tf.GradientTape() as tape:
        logits = tf.matmul(inputs, kernel)
        losses = tf.nn.softmax_cross_entropy_with_logits(labels, logits)
        loss = tf.reduce_mean(losses)
    kernel.assign_sub(0.1 * tape.gradient(loss, kernel))
    return loss


recordings = tf.data.Dataset.from_tensor_slices((songs, birds)).map(louder).batch(16).prefetch(2)
for _ in range(2):
    for batch, labels in recordings:
        loss = step(batch, labels)
print(f"loss {float(loss):.4f}")
