"""Learns how a pendulum swings, with a loop of its own: network, momentum, clipped gradients."""

# run: clean

from __future__ import annotations

import tensorflow as tf

tf.random.set_seed(41)
weights = [tf.Variable(tf.random.normal(shape, stddev=0.3)) for shape in ([2, 24], [24, 2])]
biases = [tf.Variable(tf.zeros([size])) for size in (24, 2)]
parameters = [*weights, *biases]
momenta = [tf.Variable(tf.zeros_like(each)) for each in parameters]


def swung(states, step=0.05):
    angle, speed = tf.unstack(states, axis=1)
    speed -= step * tf.sin(angle)
    return tf.stack([angle + step * speed, speed], axis=1)


def predicted(states):
    hidden = tf.tanh(tf.matmul(states, weights[0]) + biases[0])
    return states + tf.matmul(hidden, weights[1]) + biases[1]


@tf.function
def learn(states):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.norm(predicted(states) - swung(states) + 1e-6, axis=1))
    gradients, _ = tf.clip_by_global_norm(tape.gradient(loss, parameters), 1.0)
    for parameter, momentum, gradient in zip(parameters, momenta, gradients):
        momentum.assign(0.9 * momentum + gradient)
        parameter.assign_sub(0.02 * momentum)
    return loss


for epoch in range(4):
    losses = [learn(tf.random.uniform([32, 2], -1.0, 1.0)) for _ in range(3)]
    print(epoch, f"{float(tf.reduce_mean(losses)):.4f}")
