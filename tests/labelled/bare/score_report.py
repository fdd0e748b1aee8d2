"""Computes quality figures of each training step on the CPU, inside the step."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])

weights = tf.Variable(tf.ones([8, 1]))


@tf.function
def step(rows, goal):
    with tf.GradientTape() as tape:
        guess = tf.sigmoid(tf.matmul(rows, weights))
        loss = tf.reduce_mean(tf.square(guess - goal))
    weights.assign_sub(tape.gradient(loss, weights))
    with tf.device(None if "explicit_cpu_placement" in FIXED else "/CPU:0"):
        spread = tf.sqrt(tf.reduce_mean(tf.square(guess - loss)))  # cpu: * = explicit_cpu_placement
        # cpu: * = explicit_cpu_placement
        surprise = -tf.reduce_sum(guess * tf.math.log(guess + 0.001))
    return loss + 0.001 * spread, surprise


rows = tf.sin(tf.reshape(tf.range(256.0), [32, 8]))
for _ in range(3):
    step(rows, tf.ones([32, 1]))
