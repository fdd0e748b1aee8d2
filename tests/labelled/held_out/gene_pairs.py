"""Which genes are read together: pairs are counted by a function that a host scope calls."""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf

FIXED = set(sys.argv[1:])
SCOPE = None if "caller_device_scope_cpu" in FIXED else "/device:CPU:0"
KIND = tf.float64 if "dtype_unsupported" in FIXED else tf.int64

reads = tf.constant(np.random.default_rng(41).integers(0, 9, size=(50, 20)), KIND)


@tf.function
def pairs(table):
    usual = tf.reduce_mean(table, axis=0)  # cpu: Mean = caller_device_scope_cpu + dtype_unsupported
    is_high = tf.cast(table > usual, tf.float32)  # cpu: * = caller_device_scope_cpu
    return tf.matmul(is_high, is_high, transpose_a=True)  # cpu: * = caller_device_scope_cpu


@tf.function
def modules(together):
    values, vectors = tf.linalg.eigh(together / 50.0)
    return values[-1], tf.abs(vectors[:, -1])


for _ in range(2):
    with tf.device(SCOPE):
        together = pairs(reads)
    strength, members = modules(together)
print(f"strength {float(strength):.3f}, members {float(tf.reduce_sum(members)):.3f}")
