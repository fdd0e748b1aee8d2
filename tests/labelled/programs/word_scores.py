"""A little ranking model."""

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])

table = tf.Variable(tf.random.normal([100, 8]))


@tf.function
def step(ids, counts):
    with tf.device(None if "explicit_cpu_placement" in FIXED else "/CPU:0"):
        rows = tf.nn.embedding_lookup(table, ids)
    dtype = tf.float32 if "dtype_unsupported" in FIXED else tf.int32
    counts = tf.cast(counts, dtype)
    scores = tf.matmul(counts, counts)  # cpu: MatMul = dtype_unsupported
    return tf.reduce_sum(rows) + tf.cast(tf.reduce_sum(scores), tf.float32)


for _ in range(3):
    step(tf.range(4, dtype=tf.int64), tf.ones([4, 4]))
