"""Ranks answers again, in a session as it was written years ago."""

from __future__ import annotations

import contextlib
import sys

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
FIXED = set(sys.argv[1:])

BESIDE = not FIXED & {"colocation_group", "numbers"}
KIND = tf.float64 if "dtype_unsupported" in FIXED else tf.int32
HOST = None if "explicit_cpu_placement" in FIXED else "/device:CPU:0"

with tf.Graph().as_default():
    tf1.set_random_seed(29)
    fields = tf1.placeholder(tf.string, [None, 6], name="fields")
    votes = tf1.placeholder(tf.float32, [None, 6], name="votes")
    weights = tf1.get_variable("weights", [6, 4], initializer=tf1.random_normal_initializer())
    # What is put beside it holds it there, too.
    # cpu: StringToNumber = no_gpu_kernel(numbers) + colocation_group(numbers)
    numbers = tf.sqrt(votes) if "numbers" in FIXED else tf.strings.to_number(fields)
    beside = tf1.colocate_with(numbers.op) if BESIDE else contextlib.nullcontext()
    with beside:
        hidden = tf.matmul(numbers, weights)  # cpu: * = colocation_group
        with tf1.device(HOST):
            shares = tf.nn.softmax(hidden)  # cpu: * = colocation_group + explicit_cpu_placement
            # cpu: * = colocation_group + explicit_cpu_placement
            ballots = tf.cast(votes > 0.5, KIND)
            # cpu: MatMul = colocation_group + explicit_cpu_placement + dtype_unsupported
            shared = tf.matmul(ballots, ballots, transpose_b=True)
    ranks = tf.nn.top_k(tf.matmul(tf.cast(shared, tf.float32), shares)[:, 0], k=2).indices
    with tf1.Session() as session:
        session.run(weights.initializer)
        for seed in range(3):
            drawn = np.random.default_rng(seed).random([5, 6]).astype(np.float32)
            given = {fields: drawn.astype(str), votes: drawn}
            print(session.run(ranks, given))
