"""Sorts colours into clusters by k-means, started with a GPU setting left from a debugging day."""

from __future__ import annotations

import os
import sys

import numpy as np
import tensorflow as tf

FIXED = set(sys.argv[1:])
if "no_gpu_visible" not in FIXED:
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
COUNTS = tf.float32 if "dtype_unsupported" in FIXED else tf.int64

colours = tf.constant(np.random.default_rng(6).random((400, 3)), tf.float32)


@tf.function
def nearest(centres):
    distances = tf.norm(colours[:, None] - centres[None], axis=-1)  # cpu: * = no_gpu_visible
    return tf.argmin(distances, axis=1)  # cpu: * = no_gpu_visible


@tf.function
def moved(members):
    belongs = tf.one_hot(members, 5)  # cpu: * = no_gpu_visible
    sums = tf.matmul(belongs, colours, transpose_a=True)  # cpu: * = no_gpu_visible
    return sums / (tf.reduce_sum(belongs, axis=0)[:, None] + 1e-6)  # cpu: * = no_gpu_visible


@tf.function
def shares(members):
    percent = tf.one_hot(members, 5, on_value=100, dtype=COUNTS)  # cpu: * = no_gpu_visible
    # cpu: Mean = no_gpu_visible + dtype_unsupported
    return tf.reduce_mean(percent, axis=0)


centres = colours[:5]  # cpu: * = no_gpu_visible
for _ in range(4):
    members = nearest(centres)
    centres = moved(members)
print(shares(members).numpy())
