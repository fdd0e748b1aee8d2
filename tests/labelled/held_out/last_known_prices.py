"""Forecasts prices from the last one that is known; prices of the day come from a pipeline."""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf

FIXED = set(sys.argv[1:])
STORED = "/GPU:0" if "kernel_priority" in FIXED else None
EARLY = "host_pipeline" not in FIXED

prices = np.random.default_rng(11).random((12, 16), dtype=np.float32) + 1.0
weights = tf.Variable(tf.random.stateless_normal([16, 16], (1, 1)) * 0.1)


def returns(row):
    return tf.math.log(row / tf.reduce_max(row))  # cpu: * = host_pipeline


@tf.function
def forecast(row, known):
    row = row if EARLY else returns(row)
    return tf.matmul((row - known)[None], weights)[0]


days = tf.data.Dataset.from_tensor_slices(prices)
days = days.map(returns) if EARLY else days
known = tf.zeros([16])
for row in days:
    guess = forecast(row, known)
    with tf.device(STORED):
        # cpu: OptionalFromValue = kernel_priority
        last = tf.experimental.Optional.from_value(guess)
    known = tf.ensure_shape(tf.tanh(guess), last.element_spec.shape)
print(f"forecast {float(tf.reduce_sum(known)):.4f}")
