"""Searches similar quotes with a function that a server calls in a scope for the CPU."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])

known = tf.Variable(tf.sin(tf.reshape(tf.range(3200.0), [200, 16])))


@tf.function
def nearest(asked):
    # cpu: * = caller_device_scope_cpu
    return tf.math.top_k(tf.matmul(tf.nn.l2_normalize(asked, 1), known, transpose_b=True), 3)


@tf.function
def improve():
    known.assign(tf.nn.l2_normalize(known, 1))


improve()
with tf.device(None if "caller_device_scope_cpu" in FIXED else "/CPU:0"):
    for _ in range(3):
        nearest(tf.ones([4, 16]))  # cpu: Fill = explicit_cpu_placement(caller_device_scope_cpu)
