"""Evaluates a Keras classifier in a scope for the CPU, to save GPU memory."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])

tf.keras.utils.set_random_seed(3)
layers = [tf.keras.layers.Dense(16, "gelu"), tf.keras.layers.Dense(1, "sigmoid")]
model = tf.keras.Sequential([tf.keras.Input([8]), *layers])
model.compile("sgd", "binary_crossentropy", jit_compile=False)
loans = tf.cos(tf.reshape(tf.range(512.0), [64, 8]))
with tf.device(None if "caller_device_scope_cpu" in FIXED else "/CPU:0"):
    # cpu: Fill, DivNoNan = explicit_cpu_placement(caller_device_scope_cpu)
    # cpu: * = caller_device_scope_cpu
    model.evaluate(loans, tf.ones([64, 1]), verbose=0)
