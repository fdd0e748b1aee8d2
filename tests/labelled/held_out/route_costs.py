"""Learns the costs of roads from routes that drivers took, and refuses roads that do not exist."""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf

FIXED = set(sys.argv[1:])
POLICY = "IGNORE" if "attr_unsupported" in FIXED else "ERROR"

rng = np.random.default_rng(23)
steps = tf.constant(rng.integers(0, 20, size=(32, 6, 2)), tf.int32)
hours = tf.constant(rng.random(32), tf.float32)
roads = tf.Variable(tf.ones([20, 20]))


@tf.function
def total(costs, routes):
    # cpu: GatherNd = attr_unsupported
    taken = tf.gather_nd(costs, routes, bad_indices_policy=POLICY)
    return tf.reduce_sum(taken, axis=1)


@tf.function
def learn():
    away = total(tf.nn.softplus(roads), steps) - hours
    weights = tf.reshape(tf.repeat(away, 6), [-1])
    change = tf.scatter_nd(tf.reshape(steps, [-1, 2]), weights, [20, 20])
    roads.assign_sub(0.02 * change)
    return tf.reduce_mean(tf.square(away))


for _ in range(5):
    error = learn()
print(f"error {float(error):.4f}")
