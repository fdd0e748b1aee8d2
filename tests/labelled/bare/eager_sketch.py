"""Tries a layer eagerly; one part is in a scope for the CPU."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])

rows = tf.sin(tf.reshape(tf.range(2048.0), [64, 32]))
kernel = tf.ones([32, 32])
for _ in range(3):
    hidden = tf.matmul(rows, kernel)
    with tf.device(None if "explicit_cpu_placement" in FIXED else "/CPU:0"):
        hidden = tf.nn.softmax(tf.exp(-hidden))  # cpu: * = explicit_cpu_placement
    rows = rows + 0.1 * tf.matmul(hidden, kernel)
