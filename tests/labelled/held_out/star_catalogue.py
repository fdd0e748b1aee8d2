"""Matches stars with a catalogue; where the GPU is too small for all pairs, the host does them."""
# run: small_gpu

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])
MEGABYTES = 256 if "memory_pressure" in FIXED else 8
gpus = tf.config.list_physical_devices("GPU")
for gpu in gpus:
    limit = tf.config.LogicalDeviceConfiguration(memory_limit=MEGABYTES)
    tf.config.set_logical_device_configuration(gpu, [limit])

catalogue = tf.random.stateless_uniform([2000, 3], (4, 4))
seen = tf.random.stateless_uniform([2000, 3], (4, 5))
colours = tf.random.stateless_normal([64, 64], (4, 6))


def nearest(stars, known):
    products = tf.matmul(stars, known, transpose_b=True)  # cpu: MatMul = memory_pressure
    return tf.reduce_max(products, axis=1)  # cpu: Max = memory_pressure


def matched(stars, known):
    try:
        return nearest(stars, known)
    except tf.errors.ResourceExhaustedError:
        with tf.device("/CPU:0"):
            return nearest(stars, known)


for _ in range(2):
    found = matched(seen, catalogue)
spread = tf.linalg.norm(tf.matmul(colours, colours))
print(f"matched {float(tf.reduce_mean(found)):.4f}, spread {float(spread):.2f}")
