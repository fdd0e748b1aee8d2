"""Trains a regressor in mixed precision: half for products, float for weights, scaled losses."""
# run: clean

from __future__ import annotations

import tensorflow as tf

inputs = tf.random.stateless_normal([128, 32], (5, 1))
targets = tf.reduce_sum(inputs[:, :4], axis=1, keepdims=True)
hidden = tf.Variable(tf.random.stateless_normal([32, 32], (5, 2)) / 6.0)
output = tf.Variable(tf.random.stateless_normal([32, 1], (5, 3)) / 6.0)
SCALE = 128.0


@tf.function
def step():
    with tf.GradientTape() as tape:
        rows = tf.cast(inputs, tf.float16)
        rows = tf.nn.relu(tf.matmul(rows, tf.cast(hidden, tf.float16)))
        guess = tf.cast(tf.matmul(rows, tf.cast(output, tf.float16)), tf.float32)
        loss = tf.reduce_mean(tf.square(guess - targets))
        scaled = loss * SCALE
    gradients = tape.gradient(scaled, [hidden, output])
    for variable, gradient in zip((hidden, output), gradients):
        variable.assign_sub(0.05 / SCALE * gradient)
    return loss


for _ in range(5):
    loss = step()
print(f"loss {float(loss):.3f}")
