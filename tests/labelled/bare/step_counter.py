"""Counts its steps in an int32 variable."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])

KIND = tf.int64 if "dtype_unsupported" in FIXED else tf.int32
# cpu: VarHandleOp = dtype_unsupported; AssignVariableOp = resource_on_cpu(dtype_unsupported)
seen = tf.Variable(tf.zeros([4], KIND))
weights = tf.Variable(tf.ones([8, 4]))


@tf.function
def step(rows, kinds):
    seen.assign_add(kinds)  # cpu: * = resource_on_cpu(dtype_unsupported)
    return tf.reduce_sum(tf.matmul(rows, weights))


for _ in range(3):
    step(tf.ones([4, 8]), tf.ones([4], KIND))
