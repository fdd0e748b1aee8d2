"""Watches how long visitors stay, in whole minutes, by a monitor beside the training."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])
MINUTES = tf.float32 if "dtype_unsupported" in FIXED else tf.int64
# The monitor should not disturb the training.
MONITOR = None if "caller_device_scope_cpu" in FIXED else "/CPU:0"

tf.random.set_seed(29)
weights = tf.Variable(tf.random.normal([4, 1]))


@tf.function
def train(visitors, minutes):
    with tf.GradientTape() as tape:
        guessed = tf.matmul(visitors, weights)
        loss = tf.reduce_mean(tf.square(guessed - tf.cast(minutes, tf.float32)))
    weights.assign_sub(0.01 * tape.gradient(loss, weights))
    return guessed


@tf.function
def watch(minutes, guessed):
    average = tf.reduce_mean(minutes)  # cpu: Mean = dtype_unsupported + caller_device_scope_cpu
    # cpu: Mean = caller_device_scope_cpu
    expected = tf.reduce_mean(guessed)
    return average, expected


for _ in range(2):
    minutes = tf.cast(tf.random.uniform([8, 1], 1.0, 30.0), MINUTES)
    guessed = train(tf.random.uniform([8, 4]), minutes)
    with tf.device(MONITOR):
        average, expected = watch(minutes, guessed)
print(f"stay {float(average):.0f} minutes; expected {float(expected):.0f}")
