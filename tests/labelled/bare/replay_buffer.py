"""Keeps the transitions of an agent in host memory and trains on samples of them."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])

with tf.device(None if "resource_on_cpu" in FIXED else "/CPU:0"):
    # cpu: AssignVariableOp = resource_on_cpu; * = explicit_cpu_placement(resource_on_cpu)
    memory = tf.Variable(tf.zeros([256, 6]))
policy = tf.Variable(tf.ones([6, 2]))


@tf.function
def learn(places, seen, sampled):
    memory.scatter_update(tf.IndexedSlices(seen, places))  # cpu: * = resource_on_cpu
    batch = tf.gather(memory, sampled)  # cpu: * = resource_on_cpu
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.matmul(batch, policy) - 1.0))
    policy.assign_sub(0.1 * tape.gradient(loss, policy))
    return loss


places = tf.range(32, dtype=tf.int64)
for _ in range(3):
    learn(places, tf.ones([32, 6]), places)
