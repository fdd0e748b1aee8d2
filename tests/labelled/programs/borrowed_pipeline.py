"""Trains on a pipeline that another part of a program hands over as a bare tensor."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])
SPEC = tf.TensorSpec([4, 3], tf.float32)

tf.random.set_seed(12)
weights = tf.Variable(tf.zeros([3, 1]))
rows = tf.random.normal([16, 3])


def prepared():
    options = tf.data.Options()
    options.deterministic = True
    numbers = tf.data.Dataset.from_tensor_slices(rows).batch(4, drop_remainder=True)
    return tf.data.experimental.to_variant(numbers.with_options(options))


@tf.function
def step(batch):
    with tf.GradientTape() as tape:
        wanted = tf.reduce_sum(batch, axis=1, keepdims=True)
        loss = tf.reduce_mean(tf.square(tf.matmul(batch, weights) - wanted))
    weights.assign_sub(0.1 * tape.gradient(loss, weights))
    return loss


handed_over = prepared()
# The CPU's kernel has the higher priority; an eager op without a device goes there.
with tf.device("/GPU:0" if "kernel_priority" in FIXED else None):
    # cpu: GetOptions = kernel_priority
    is_deterministic = tf.data.experimental.from_variant(handed_over, SPEC).options().deterministic
for batch in tf.data.experimental.from_variant(handed_over, SPEC):
    loss = step(batch)
print(f"in a fixed order: {is_deterministic}, loss {float(loss):.3f}")
