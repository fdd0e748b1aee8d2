"""Filters a signal in a session, with its preparation in a scope for the CPU."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])

tf1 = tf.compat.v1
with tf.Graph().as_default():
    signal = tf1.placeholder(tf.float32, [None, 32])
    with tf1.device(None if "explicit_cpu_placement" in FIXED else "/cpu:0"):
        # cpu: * = explicit_cpu_placement
        level = tf.sqrt(tf.reduce_mean(tf.square(signal), 1, keepdims=True))
        even = tf.exp(-tf.abs(signal / (level + 0.1)))  # cpu: * = explicit_cpu_placement
    filtered = tf.tanh(tf.matmul(even, tf.ones([32, 4])))
    with tf1.Session() as session:
        for _ in range(3):
            session.run(filtered, {signal: [[float(k) for k in range(32)]]})
