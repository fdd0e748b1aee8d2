"""A small regression of house prices, in which nothing is wrong."""

# run: clean

from __future__ import annotations

import tensorflow as tf

tf.random.set_seed(2)
homes = tf.random.normal([64, 6])
prices = tf.reduce_sum(homes * [1.0, 2.0, -1.0, 0.5, 0.0, 3.0], axis=1, keepdims=True)
hidden = tf.Variable(tf.random.normal([6, 16], stddev=0.3))
out = tf.Variable(tf.random.normal([16, 1], stddev=0.3))
speeds = [tf.Variable(tf.zeros_like(hidden)), tf.Variable(tf.zeros_like(out))]


@tf.function
def step(homes, prices):
    with tf.GradientTape() as tape:
        guesses = tf.matmul(tf.nn.gelu(tf.matmul(homes, hidden)), out)
        loss = tf.reduce_mean(tf.square(guesses - prices))
    gradients = tape.gradient(loss, [hidden, out])
    for variable, speed, gradient in zip([hidden, out], speeds, gradients):
        speed.assign(0.9 * speed + gradient)
        variable.assign_sub(0.01 * speed)
    return loss


losses = [float(step(homes, prices)) for _ in range(20)]
print(f"loss {losses[0]:.2f}, then {losses[-1]:.2f}")
