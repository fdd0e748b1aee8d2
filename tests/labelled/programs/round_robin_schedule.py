"""Plans shifts eagerly: each machine's backlog, taken modulo its slots, and a load that follows."""
# run: TF_EAGER_ENABLE_SMALL_TENSOR_CPU_PINNING=1

from __future__ import annotations

import os
import sys

import numpy as np
import tensorflow as tf

FIXED = set(sys.argv[1:])
if "small_int_pinning" in FIXED:
    os.environ["TF_EAGER_ENABLE_SMALL_TENSOR_CPU_PINNING"] = "0"
SCOPE = None if "explicit_cpu_placement" in FIXED else "/CPU:0"

rng = np.random.default_rng(12)
slots = tf.constant([3, 5, 7], tf.int64)
for _ in range(3):
    arrived = tf.constant(rng.integers(0, 50, size=3))
    backlog = tf.multiply(arrived, slots)  # cpu: Mul = small_int_pinning
    with tf.device(SCOPE):
        # cpu: BitwiseXor = small_int_pinning + explicit_cpu_placement
        later = tf.bitwise.bitwise_xor(backlog, slots)
    rows = tf.cast(tf.constant(rng.integers(0, 9, size=(64, 64))), tf.float32)
    load = tf.linalg.matmul(rows, rows)
print(backlog.numpy(), later.numpy(), float(load[0, 0]))
