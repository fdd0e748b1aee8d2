"""Trains a linear classifier on batches that a tf.data pipeline shuffles and prefetches."""
# run: clean

from __future__ import annotations

import numpy as np
import tensorflow as tf

rng = np.random.default_rng(11)
features = rng.normal(size=(256, 16)).astype("float32")
labels = (features[:, 0] > features[:, 1]).astype("float32")[:, None]
data = tf.data.Dataset.from_tensor_slices((features, labels))
data = data.shuffle(256, seed=4)
data = data.batch(64, drop_remainder=True).prefetch(2)

weights = tf.Variable(tf.zeros([16, 1]), name="weights")


@tf.function
def step(rows, wanted):
    with tf.GradientTape() as tape:
        logits = tf.matmul(rows, weights)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(wanted, logits)
        loss = tf.reduce_mean(losses)
    weights.assign_sub(0.5 * tape.gradient(loss, weights))
    return loss


for _ in range(2):
    for rows, wanted in data:
        loss = step(rows, wanted)
print(f"loss {float(loss):.3f}")
