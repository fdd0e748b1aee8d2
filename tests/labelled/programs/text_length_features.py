"""Scores short messages by their lengths; a graph optimizer that keeps small work on the host."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])
if "grappler_pin_to_host" not in FIXED:
    tf.config.optimizer.set_experimental_options({"pin_to_host_optimization": True})
HAS_SIZES = "no_gpu_kernel" in FIXED

weights = tf.Variable(tf.ones([3, 16]) / 3, name="weights")


@tf.function(input_signature=[tf.TensorSpec([3], tf.string), tf.TensorSpec([3], tf.float32)])
def score(messages, sizes):
    # cpu: StringLength = no_gpu_kernel
    length = tf.math.ceil(sizes) if HAS_SIZES else tf.strings.length(messages)
    known = tf.cast(length, tf.float32)  # cpu: Cast = grappler_pin_to_host
    weighted = known * [0.5, 0.25, 0.125]  # cpu: Mul = grappler_pin_to_host
    row = weighted[None]  # cpu: StridedSlice = grappler_pin_to_host
    return tf.reduce_sum(tf.matmul(row, weights))


for text in ("short", "a longer one", "and the longest of them all"):
    texts = [text, text + "!", "?"]
    result = score(tf.constant(texts), tf.constant([float(len(each)) for each in texts]))
print(f"{float(result):.3f}")
