"""Counts how often songs are played, and draws up a chart of them."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])

KIND = tf.int64 if "dtype_unsupported" in FIXED else tf.int32
with tf.device(None if "resource_on_cpu" in FIXED else "/CPU:0"):
    # cpu: Fill = explicit_cpu_placement(resource_on_cpu)
    # cpu: VarHandleOp = explicit_cpu_placement(resource_on_cpu) + dtype_unsupported
    # cpu: AssignVariableOp = resource_on_cpu + resource_on_cpu(dtype_unsupported)
    plays = tf.Variable(tf.zeros([50], KIND), trainable=False)
    # cpu: Fill, VarHandleOp = explicit_cpu_placement(resource_on_cpu); * = resource_on_cpu
    trend = tf.Variable(tf.zeros([50]), trainable=False)


@tf.function
def played(songs):
    ones = tf.ones_like(songs, KIND)
    # cpu: ResourceScatterAdd = resource_on_cpu + dtype_unsupported
    plays.scatter_add(tf.IndexedSlices(ones, songs))
    heard = tf.math.bincount(tf.cast(songs, tf.int32), minlength=50, dtype=tf.float32)
    trend.assign(0.9 * trend + heard)  # cpu: * = resource_on_cpu


@tf.function
def chart():
    return tf.math.top_k(trend, k=5).indices  # cpu: ReadVariableOp = resource_on_cpu


for hour in range(3):
    songs = tf.random.stateless_uniform([64], [hour, 3], maxval=50, dtype=tf.int64)
    played(songs)
    print(hour, chart().numpy())
