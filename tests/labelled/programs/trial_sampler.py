"""Draws trials for a search in a v1 session, whose optimizer options once suited a machine."""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import rewriter_config_pb2

FIXED = set(sys.argv[1:])
DRAWS = "no_gpu_kernel" in FIXED

config = tf.compat.v1.ConfigProto()
if "grappler_pin_to_host" not in FIXED:
    rewrites = config.graph_options.rewrite_options
    rewrites.pin_to_host_optimization = rewriter_config_pb2.RewriterConfig.ON
    rewrites.min_graph_nodes = -1

with tf.Graph().as_default():
    matrix = tf.constant(np.random.default_rng(1).normal(size=(4, 64)).astype("float32"))
    rates = tf.constant([0.1, 0.03, 0.01, 0.003])
    # cpu: RandomShuffle = no_gpu_kernel
    order = tf.random.uniform([4], seed=3) if DRAWS else tf.random.shuffle(rates, seed=3)
    scales = tf.math.square(order)  # cpu: Square = grappler_pin_to_host
    shifted = scales + rates  # cpu: AddV2 = grappler_pin_to_host
    spread = tf.linalg.diag(shifted)  # cpu: MatrixDiagV3 = grappler_pin_to_host
    logits = tf.matmul(spread, matrix)
    with tf.compat.v1.Session(config=config) as session:
        for _ in range(3):
            found = session.run(logits)
print(f"{found.sum():.3f}")
