"""Trains word vectors with negative samples; the table is kept on the host."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])

with tf.device(None if "resource_on_cpu" in FIXED else "/CPU:0"):
    # cpu: AssignVariableOp = resource_on_cpu; * = explicit_cpu_placement(resource_on_cpu)
    vectors = tf.Variable(tf.ones([300, 16]) * 0.1, name="vectors")
contexts = tf.Variable(tf.ones([300, 16]) * 0.2, name="contexts")


@tf.function
def step(words, near):
    with tf.GradientTape() as tape:
        left = tf.nn.embedding_lookup(vectors, words)  # cpu: * = resource_on_cpu
        right = tf.nn.embedding_lookup(contexts, near)
        loss = -tf.reduce_mean(tf.math.log_sigmoid(tf.reduce_sum(left * right, 1)))
    for variable, slope in zip(
        [vectors, contexts], tape.gradient(loss, [vectors, contexts]), strict=True
    ):
        # cpu: * = resource_on_cpu
        variable.scatter_sub(tf.IndexedSlices(0.5 * slope.values, slope.indices))
    return loss


words = tf.range(64, dtype=tf.int64)
for _ in range(3):
    step(words, words * 3)
