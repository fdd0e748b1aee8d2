"""Walks a grid by whole numbers: shapes, sizes, ranges and a loop, none of which is on the CPU."""
# run: clean

from __future__ import annotations

import tensorflow as tf


@tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32)])
def walk(grid):
    rows = tf.shape(grid)[0]
    steps = tf.minimum(rows, 5) + 1
    total = tf.zeros([4])
    at = tf.constant(0)
    while at < steps:
        total += grid[at % rows]
        at += 1
    weights = tf.cast(tf.range(tf.size(total)), tf.float32)
    return tf.reduce_sum(total * weights) / tf.cast(rows, tf.float32)


for count in (3, 7, 12):
    found = walk(tf.random.stateless_uniform([count, 4], (2, count)))
print(f"{float(found):.3f}")
