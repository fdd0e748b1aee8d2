"""Finds the rhythm of a signal in a function whose whole body is in a scope for the CPU."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])

weights = tf.Variable(tf.ones([17, 2]))


@tf.function
def rhythm(signal):
    with tf.device(None if "explicit_cpu_placement" in FIXED else "/CPU:0"):
        power = tf.abs(tf.signal.rfft(signal))  # cpu: * = explicit_cpu_placement
        return tf.math.log(power + 1.0)  # cpu: * = explicit_cpu_placement


@tf.function
def judge(power):
    return tf.nn.softmax(tf.matmul(power, weights))


for _ in range(3):
    judge(rhythm(tf.sin(tf.reshape(tf.range(256.0), [8, 32]))))
