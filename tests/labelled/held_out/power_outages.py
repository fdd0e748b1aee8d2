"""Fills gaps in the load curves of a town: which hours were measured, and what fits between."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])
HOURS = 48

curves = tf.random.stateless_normal([5, HOURS], (6, 1)) + 10.0
times = tf.range(float(HOURS))
bumps = tf.exp(-tf.square((times[:, None] - tf.range(0.0, 48.0, 8.0)) / 6))


def all_measured():
    by_op = "library_cpu_placement" in FIXED
    # cpu: Fill, Identity = library_cpu_placement
    return tf.fill([HOURS], value=True) if by_op else tf.constant(value=True, shape=[HOURS])


@tf.function
def fitted(curve, is_known):
    weights = tf.cast(is_known, tf.float32)[:, None]
    design = bumps * weights
    square = tf.matmul(design, design, transpose_a=True) + 0.1 * tf.eye(6)
    found = tf.linalg.solve(square, tf.matmul(design, curve[:, None], transpose_a=True))
    return tf.where(is_known, curve, tf.matmul(bumps, found)[:, 0])


restored = 0.0
for town, curve in enumerate(tf.unstack(curves)):
    gap = tf.abs(times - 9.0 * town) < 3.0
    known = tf.logical_and(all_measured(), tf.logical_not(gap))
    restored += float(tf.reduce_mean(fitted(curve, known)))
print(f"mean load {restored / 5:.3f}")
