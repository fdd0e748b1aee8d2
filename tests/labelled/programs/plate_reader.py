"""Reads the wells of sample plates; a check that hardly ever runs and cheap ops leave no event."""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf

FIXED = set(sys.argv[1:])
CUT_ON = None if "explicit_cpu_placement" in FIXED else "/CPU:0"
CHECKED_ON = None if "check" in FIXED else "/CPU:0"

rng = np.random.default_rng(23)
plates = tf.constant(rng.random([2, 48, 48, 1]), tf.float32)
corners = tf.constant(rng.random([6, 4]), tf.float32)
dilution = tf.Variable(tf.ones([36]))


@tf.function
def read(photos, limit):
    with tf.device(CUT_ON):
        # cpu: CropAndResize = explicit_cpu_placement
        wells = tf.image.crop_and_resize(photos, corners, [0, 0, 0, 1, 1, 1], [6, 6])
        light = tf.reshape(wells, [6, 36])
    values = tf.nn.softplus(light) * dilution
    if tf.reduce_max(values) > limit:
        with tf.device(CHECKED_ON):
            # cpu: * = explicit_cpu_placement(check)
            values = tf.math.cumsum(values, axis=1)
    return tf.reduce_mean(values)


for number in range(4):
    print(number, f"{read(plates, tf.constant(90.0)):.4f}")
