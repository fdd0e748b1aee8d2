"""Warps weather maps along the wind, and refuses winds that leave the map."""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf

FIXED = set(sys.argv[1:])
STRICT = "" if "attr_unsupported" in FIXED else "ERROR"
SCOPE = None if "explicit_cpu_placement" in FIXED else "/CPU:0"

maps = tf.random.stateless_normal([24, 24, 4], (12, 1))
wind = np.random.default_rng(12).integers(-1, 2, size=(24, 24, 2))
places = np.stack(np.meshgrid(np.arange(24), np.arange(24), indexing="ij"), axis=-1)
sources = tf.constant(np.clip(places + wind, 0, 23), tf.int64)
mixing = tf.Variable(tf.eye(4))


@tf.function
def hour(state):
    with tf.device(SCOPE):
        # cpu: GatherNd = explicit_cpu_placement + attr_unsupported
        moved = tf.gather_nd(state, sources, bad_indices_policy=STRICT)
    return tf.tanh(tf.einsum("xyc,cd->xyd", moved, mixing))


state = maps
for _ in range(6):
    state = hour(state)
print(f"mean {float(tf.reduce_mean(state)):.5f}")
