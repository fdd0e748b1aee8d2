"""Brightens the frames of a camera, which a queue in host memory hands over."""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
FIXED = set(sys.argv[1:])
if "queue" in FIXED:
    FIXED |= {"explicit_cpu_placement", "follows_neighbour"}

HOST = "/CPU:0"
TAKEN_ON = None if "explicit_cpu_placement" in FIXED else HOST
MEASURED_ON = None if "follows_neighbour" in FIXED else HOST
QUEUED_ON = None if TAKEN_ON == MEASURED_ON is None else HOST

with tf.Graph().as_default():
    shot = tf1.placeholder(tf.float32, [2, 24, 24])
    with tf1.device(QUEUED_ON):
        # cpu: Stage = explicit_cpu_placement(queue)
        queued = tf.raw_ops.Stage(values=[shot], shared_name="frames", capacity=4)
    with tf1.device(TAKEN_ON):
        # cpu: Unstage = explicit_cpu_placement + follows_neighbour
        [frames] = tf.raw_ops.Unstage(dtypes=[tf.float32], shared_name="frames", capacity=4)
    with tf1.device(MEASURED_ON):
        lit = tf.nn.relu(frames) + 0.01  # cpu: * = explicit_cpu_placement(follows_neighbour)
        # cpu: * = explicit_cpu_placement(follows_neighbour)
        middle = tf.exp(tf.reduce_mean(tf.math.log(lit)))
    brightened = tf.clip_by_value(lit * 0.5 / middle, 0.0, 1.0)

    with tf1.Session() as session:
        for number in range(3):
            drawn = np.random.default_rng(number).random([2, 24, 24])
            session.run(queued, {shot: drawn * 0.4})
            print(number, f"{session.run(brightened).mean():.4f}")
