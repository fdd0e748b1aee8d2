"""Evaluates a Keras classifier in a scope for the CPU, to save GPU memory."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])

tf.keras.utils.set_random_seed(3)
layers = [tf.keras.layers.Dense(16, "gelu"), tf.keras.layers.Dense(1, "sigmoid")]
model = tf.keras.Sequential([tf.keras.Input([8]), *layers])
loans = tf.cos(tf.reshape(tf.range(512.0), [64, 8]))


@tf.function
def risk(rows):
    return tf.reduce_mean(model(rows))  # cpu: * = caller_device_scope_cpu


with tf.device(None if "caller_device_scope_cpu" in FIXED else "/CPU:0"):
    risk(loans)
