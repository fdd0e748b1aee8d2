"""Adds up the lengths of words; what is computed of few of them is kept on the host."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])
if "grappler_pin_to_host" not in FIXED:
    tf.config.optimizer.set_experimental_options({"pin_to_host_optimization": True})
HAS_SIZES = "no_gpu_kernel" in FIXED


@tf.function
def budget(few, many, few_sizes, many_sizes):
    # cpu: StringLength = no_gpu_kernel
    short = tf.cast(few_sizes, tf.int32) if HAS_SIZES else tf.strings.length(few)
    # cpu: StringLength = no_gpu_kernel
    long = tf.cast(many_sizes, tf.int32) if HAS_SIZES else tf.strings.length(many)
    halves = tf.cast(short, tf.float32) / 2.0  # cpu: Cast, Mul = grappler_pin_to_host
    thirds = tf.cast(long, tf.float32) / 3.0
    total = tf.constant(0)
    for step in tf.range(4):
        total += short[step] * 2  # cpu: Mul = grappler_pin_to_host
    mean = tf.reduce_sum(long) // 100  # cpu: FloorDiv = grappler_pin_to_host
    doubled = tf.cast(short, tf.float64) * 2.0
    all_halves = tf.reduce_sum(halves)  # cpu: Sum = grappler_pin_to_host
    return all_halves, tf.reduce_sum(thirds), total + mean, tf.reduce_sum(doubled)


words = [f"w{'x' * (k % 9)}" for k in range(100)]
sizes = tf.constant([float(len(word)) for word in words])
for _ in range(3):
    found = budget(tf.constant(words[:8]), tf.constant(words), sizes[:8], sizes)
print(" ".join(f"{float(each):.2f}" for each in found))
