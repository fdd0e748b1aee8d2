"""Hands batches from a reader to a model by a buffer in host memory, in a session."""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
FIXED = set(sys.argv[1:])

HOST = None if "explicit_cpu_placement" in FIXED else "/CPU:0"
BUFFER = {"dtypes": [tf.float32], "shared_name": "readings"}

with tf.Graph().as_default():
    tf1.set_random_seed(43)
    weights = tf1.get_variable("weights", [8, 3], initializer=tf1.random_normal_initializer())
    readings = tf1.placeholder(tf.float32, [16, 8], name="readings")
    with tf1.device(HOST):
        scaled = readings / tf.reduce_max(tf.abs(readings))  # cpu: * = explicit_cpu_placement
        # cpu: Stage = explicit_cpu_placement
        put = tf.raw_ops.Stage(values=[scaled], shared_name="readings")

    size = tf.raw_ops.StageSize(**BUFFER)  # cpu: StageSize = follows_neighbour
    # cpu: StringFormat = no_gpu_kernel!
    state = tf.strings.format("{} in the buffer", [size])
    if "follows_neighbour" in FIXED:
        state = (state, tf.cast(size, tf.float32) / 10.0)

    # cpu: Unstage = follows_neighbour(explicit_cpu_placement)
    [batch] = tf.raw_ops.Unstage(**BUFFER)
    with tf1.device(HOST):
        centred = batch - tf.reduce_mean(batch, axis=0)  # cpu: * = explicit_cpu_placement
    score = tf.reduce_mean(tf.tanh(tf.matmul(tf.reshape(centred, [16, 8]), weights)))

    with tf1.Session() as session:
        session.run(weights.initializer)
        for seed in range(3):
            drawn = np.random.default_rng(seed).normal(size=[16, 8])
            session.run(put, {readings: drawn})
            print(session.run(state))
            print(f"{session.run(score):.4f}")
