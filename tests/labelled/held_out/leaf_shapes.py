"""Tells plants apart by the shapes of their leaves: a Keras network and a step of one's own."""
# run: clean

from __future__ import annotations

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(5)
rng = np.random.default_rng(5)
leaves = tf.constant(rng.random((32, 16, 16, 1)), tf.float32)
plants = tf.one_hot(tf.constant(rng.integers(0, 4, size=32)), 4)

model = tf.keras.Sequential(
    [
        tf.keras.layers.Conv2D(8, 3, activation="relu"),
        tf.keras.layers.GlobalAveragePooling2D(),
        tf.keras.layers.Dense(4),
    ]
)
model.build([None, 16, 16, 1])
optimizer = tf.keras.optimizers.Adam(0.01)


@tf.function
def step(batch, labels):
    with tf.GradientTape() as tape:
        logits = model(batch, training=True)
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels, logits))
    slopes = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(slopes, model.trainable_variables))
    return loss


for _ in range(4):
    loss = step(leaves, plants)
print(f"loss {float(loss):.4f}")
