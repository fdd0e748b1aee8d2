"""Kernel regression over many points: where the matrix does not fit, a thinned one on the CPU."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])
# More than any machine has: without a GPU it does not fit, either.
SIZE = 500 if "memory_pressure" in FIXED else 1 << 23

points = tf.random.stateless_normal([SIZE, 2], (3, 1))


def gram(rows):
    products = tf.matmul(rows, rows, transpose_b=True)  # cpu: MatMul = memory_pressure
    return tf.exp(products / 4.0)  # cpu: Exp, RealDiv = memory_pressure


try:
    kernel = gram(points)
except tf.errors.ResourceExhaustedError:
    print("does not fit: thinned")
    thinned = points[:: 1 << 14]
    with tf.device("/CPU:0"):
        kernel = gram(thinned)
print(kernel.shape)
