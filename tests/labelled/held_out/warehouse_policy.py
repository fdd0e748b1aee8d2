"""Plans the orders of a warehouse: the host counts what moves, the GPU improves the policy."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])
CALLED_UNDER = None if "caller_device_scope_cpu" in FIXED else "/CPU:0"
COUNTED_UNDER = None if "explicit_cpu_placement" in FIXED else "/CPU:0"
COUNTS = tf.float32 if "dtype_unsupported" in FIXED else tf.int32

arrivals = tf.random.stateless_uniform([16, 12], (8, 8), maxval=5, dtype=tf.int32)
shelves = tf.constant([0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 4, 5, 6, 7, 8])
policy = tf.Variable(tf.random.stateless_normal([12, 12], (8, 10)) * 0.1)


@tf.function
def rollout(goods):
    with tf.device(COUNTED_UNDER):
        counts = tf.cast(goods, COUNTS)
        # cpu: SegmentSum = caller_device_scope_cpu + explicit_cpu_placement + dtype_unsupported
        stock = tf.math.segment_sum(counts, shelves)
        # cpu: Cast = caller_device_scope_cpu + explicit_cpu_placement
        level = tf.cast(stock, tf.float32)
    return tf.nn.relu(level - 2.0)  # cpu: * = caller_device_scope_cpu


@tf.function
def improve(surplus):
    with tf.GradientTape() as tape:
        kept = tf.matmul(surplus, tf.nn.softmax(policy))
        cost = tf.reduce_mean(tf.square(kept))
    policy.assign_sub(0.01 * tape.gradient(cost, policy))
    return cost


for _ in range(3):
    with tf.device(CALLED_UNDER):
        surplus = rollout(arrivals)
    cost = improve(surplus)
print(f"cost {float(cost):.3f}")
