"""Counts the friends that people share, as products of integers."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])

KIND = tf.float32 if "dtype_unsupported" in FIXED else tf.int32
weights = tf.Variable(tf.ones([12, 4]))


@tf.function
def step(friends):
    shared = tf.matmul(friends, friends, transpose_b=True)  # cpu: * = dtype_unsupported
    close = tf.nn.softmax(tf.cast(shared, tf.float32))
    return tf.reduce_mean(tf.matmul(close, weights))


friends = tf.cast(tf.reshape(tf.range(144) % 3, [12, 12]), KIND)
for _ in range(3):
    step(friends)
