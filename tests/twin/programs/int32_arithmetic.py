"""Integers that count and index: placed on the GPU, computed on the host; some on the CPU."""

import tensorflow as tf

counts = tf.ones([2000], tf.int32)
for _ in range(5):
    total = tf.reduce_sum(counts + counts)  # int32: on the GPU, computed on the host
    is_one = tf.equal(counts, 1)  # `bool`, made on the host, too
    sizes = tf.shape(counts, out_type=tf.int64)
    wide = tf.cast(counts, tf.int64)
    total_wide = tf.reduce_sum(wide * wide)  # int64: computed on the GPU
    product = tf.matmul(tf.ones([20, 20], tf.int32), tf.ones([20, 20], tf.int32))  # no GPU kernel

weights = tf.Variable(tf.ones([100, 100]))


@tf.function
def step(x, n):
    y = tf.matmul(weights, x)
    rows = tf.shape(y)[0] * n + tf.size(x)
    weights.assign_add(y * 1e-9)
    return tf.reduce_sum(y) * tf.cast(rows, tf.float32)


for i in range(5):
    step(tf.ones([100, 100]), tf.constant(i))
