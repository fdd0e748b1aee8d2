"""Plans shifts: who can be reached by two swaps, counted exactly, and a score of each plan."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])
# Whole numbers, once kept off the GPU by hand.
COUNTS = tf.float64 if "dtype_unsupported" in FIXED else tf.int32
DEVICE = None if "explicit_cpu_placement" in FIXED else "/CPU:0"

tf.random.set_seed(23)
wishes = tf.random.normal([6, 3])


@tf.function
def plan(swaps, load):
    with tf.device(DEVICE):
        # cpu: MatMul = dtype_unsupported + explicit_cpu_placement
        reached = tf.matmul(swaps, swaps)
    ways = tf.cast(reached, tf.float32)
    scores = tf.nn.softmax(tf.matmul(ways, wishes), axis=1)
    return tf.matmul(scores, load, transpose_b=True)


drawn = tf.random.uniform([6, 6]) < 0.4
swaps = tf.cast(drawn, COUNTS)
for day in range(3):
    load = tf.random.stateless_uniform([2, 3], [day, 1])
    shifts = plan(swaps, load)
print("plan:", tf.argmax(shifts, axis=1).numpy().tolist())
