"""Asks by permutation whether a drug works: how often is a difference as large by chance?"""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf

FIXED = set(sys.argv[1:])

rng = np.random.default_rng(31)
effects = np.concatenate([rng.normal(0.8, 1.0, 60), rng.normal(0.0, 1.0, 60)]).astype("float32")
tf.random.set_seed(7)


@tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
def difference(values):
    half = tf.shape(values)[0] // 2
    return tf.reduce_mean(values[:half]) - tf.reduce_mean(values[half:])


@tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
def chance(values):
    count = tf.size(values)
    ranks = tf.argsort(tf.random.uniform([count]))
    # cpu: RandomShuffle = no_gpu_kernel
    order = tf.gather(values, ranks) if "no_gpu_kernel" in FIXED else tf.random.shuffle(values)
    return tf.reduce_mean(order[: count // 2]) - tf.reduce_mean(order[count // 2 :])


seen = difference(effects)
larger = 0
for _ in range(20):
    larger += int(chance(effects) >= seen)
print(f"difference {float(seen):.3f}, as large by chance {larger} of 20")
