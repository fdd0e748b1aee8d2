"""Forecasts a tide from its last hours: a recurrent cell written by hand, on windows of a curve."""
# run: clean

from __future__ import annotations

import numpy as np
import tensorflow as tf

rng = np.random.default_rng(11)
hours = np.arange(400, dtype="float32")
level = np.sin(hours / 2.0) + 0.3 * np.sin(hours / 7.0) + rng.normal(0, 0.02, 400)
windows = np.stack([level[k : k + 12] for k in range(380)]).astype("float32")
given, wanted = tf.constant(windows[:, :-1]), tf.constant(windows[:, -1:])

kernel = tf.Variable(rng.normal(0, 0.3, (9, 8)).astype("float32"))
readout = tf.Variable(rng.normal(0, 0.3, (8, 1)).astype("float32"))


@tf.function
def train(given, wanted):
    with tf.GradientTape() as tape:
        state = tf.zeros([380, 8])
        for value in tf.unstack(given, axis=1):
            state = tf.tanh(tf.matmul(tf.concat([state, value[:, None]], 1), kernel))
        loss = tf.reduce_mean(tf.square(tf.matmul(state, readout) - wanted))
    for weight, gradient in zip((kernel, readout), tape.gradient(loss, (kernel, readout))):
        weight.assign_sub(0.1 * gradient)
    return loss


for _ in range(4):
    loss = train(given, wanted)
print(f"{float(loss):.4f}")
