"""Predicts who will leave, trains on the GPU, and writes a report in a scope for the host."""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf

FIXED = set(sys.argv[1:])
REPORTS = None if "caller_device_scope_cpu" in FIXED else "/CPU:0"

rng = np.random.default_rng(29)
customers = tf.constant(rng.normal(size=(64, 10)), tf.float32)
left = tf.constant(rng.integers(0, 2, size=(64, 1)), tf.float32)
weights = tf.Variable(tf.zeros([10, 1]), name="weights")


@tf.function
def step():
    with tf.GradientTape() as tape:
        logits = tf.matmul(customers, weights)
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(left, logits))
    weights.assign_sub(0.2 * tape.gradient(loss, weights))
    return loss


@tf.function
def report(rows, labels, kernel):
    chances = tf.sigmoid(tf.matmul(rows, kernel))  # cpu: * = caller_device_scope_cpu
    right = tf.equal(chances > 0.5, labels > 0.5)  # cpu: * = caller_device_scope_cpu
    share = tf.reduce_mean(tf.cast(right, tf.float32))  # cpu: * = caller_device_scope_cpu
    best = tf.nn.top_k(chances[:, 0], 5).values  # cpu: * = caller_device_scope_cpu
    return share, best


for _ in range(5):
    loss = step()
learned = weights.read_value()
with tf.device(REPORTS):
    share, best = report(customers, left, learned)
print(f"loss {float(loss):.4f}, right {float(share):.3f}, surest {float(best[0]):.3f}")
