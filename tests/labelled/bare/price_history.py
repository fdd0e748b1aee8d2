"""Trains on the GPU and predicts the next prices with Keras in a scope for the CPU."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])

tf.keras.utils.set_random_seed(2)
layers = [tf.keras.layers.Dense(16, "tanh"), tf.keras.layers.Dense(1)]
model = tf.keras.Sequential([tf.keras.Input([12]), *layers])
model.compile("sgd", "mse", jit_compile=False)
prices = tf.sin(tf.reshape(tf.range(768.0), [64, 12]))
model.fit(prices, prices[:, :1], verbose=0)
with tf.device(None if "caller_device_scope_cpu" in FIXED else "/CPU:0"):
    # cpu: _FusedMatMul, MatMul, Tanh, AddV2 = caller_device_scope_cpu
    # cpu: ConcatV2, Equal, All, Shape = explicit_cpu_placement(caller_device_scope_cpu)
    # cpu: Pack, StridedSlice = explicit_cpu_placement(caller_device_scope_cpu)
    model.predict(prices, verbose=0)
