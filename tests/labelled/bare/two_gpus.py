"""Trains on two GPUs; the table of users is created in a scope for the CPU."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])

# run: gpus=2
strategy = tf.distribute.MirroredStrategy(["/GPU:0", "/GPU:1"])
with strategy.scope():
    weights = tf.Variable(tf.ones([8, 4]))
with tf.device(None if "resource_on_cpu" in FIXED else "/CPU:0"):
    # cpu: AssignVariableOp = resource_on_cpu; * = explicit_cpu_placement(resource_on_cpu)
    users = tf.Variable(tf.ones([100, 8]))


@tf.function
def step(ids):
    rows = tf.gather(users, ids)  # cpu: ResourceGather = resource_on_cpu

    def replica(rows):
        return tf.reduce_mean(tf.matmul(rows, weights))

    # cpu: AddN = distribution_strategy_cpu!
    return strategy.reduce("SUM", strategy.run(replica, [rows]), axis=None)


for _ in range(3):
    step(tf.range(32, dtype=tf.int64))
