"""Finds which articles are bought together: support and confidence of pairs."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])

COUNTS = tf.float64 if "dtype_unsupported" in FIXED else tf.int32
HOST = None if "explicit_cpu_placement" in FIXED else "/CPU:0"


@tf.function(input_signature=[tf.TensorSpec([None, 24], tf.bool)])
def rules(bought):
    baskets = tf.cast(bought, COUNTS)
    with tf.device(HOST):
        # cpu: MatMul = explicit_cpu_placement + dtype_unsupported
        together = tf.matmul(baskets, baskets, transpose_a=True)
        pairs = tf.cast(together, tf.float32)  # cpu: Cast = explicit_cpu_placement
        alone = tf.linalg.diag_part(pairs)  # cpu: * = explicit_cpu_placement
    confidence = pairs / tf.maximum(alone[:, tf.newaxis], 1.0)
    return tf.linalg.set_diag(confidence, tf.zeros([24]))


drawn = tf.random.stateless_uniform([200, 24], seed=[3, 4])
for day in range(3):
    likely = drawn[day * 60 : (day + 1) * 60] < 0.2
    best = tf.math.top_k(tf.reshape(rules(likely), [-1]), k=3)
    print(day, best.values.numpy().round(3))
