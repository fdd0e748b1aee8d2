"""Fits a regression and keeps a diary of it: summaries, written from within the step."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])

tf.random.set_seed(11)
weights = tf.Variable(tf.random.normal([32, 4], stddev=0.1))
# cpu: SummaryWriter = library_cpu_placement! + no_gpu_kernel!
# cpu: * = no_gpu_kernel! + resource_on_cpu!
writer = tf.summary.create_file_writer("diary")
AHEAD = "library_cpu_placement" in FIXED
TALLY = tf.float32 if "dtype_unsupported" in FIXED else tf.int64


def norm_of_columns(matrix):
    return tf.sqrt(tf.reduce_sum(matrix * matrix, axis=0))  # cpu: * = library_cpu_placement


def mean_hits(scores):
    hits = tf.cast(scores > 0.5, TALLY)  # cpu: * = library_cpu_placement
    # cpu: Mean = library_cpu_placement + dtype_unsupported
    return tf.reduce_mean(hits, axis=0)


@tf.function
def step(inputs, targets, number):
    with tf.GradientTape() as tape:
        scores = tf.matmul(inputs, weights)
        loss = tf.reduce_mean((scores - targets) ** 2)
    gradient = tape.gradient(loss, weights)
    weights.assign_sub(0.05 * gradient)
    for tag, made_by, value in [("norm", norm_of_columns, gradient), ("hits", mean_hits, scores)]:
        entry = made_by(value) if AHEAD else lambda f=made_by, v=value: f(v)
        # cpu: WriteSummary = no_gpu_kernel! + resource_on_cpu!
        tf.summary.write(tag, entry, step=number)
    return loss


# cpu: FlushSummaryWriter = no_gpu_kernel! + resource_on_cpu!
with writer.as_default():
    for number in range(3):
        batch = tf.random.normal([16, 32])
        loss = step(batch, batch[:, :4], tf.constant(number, tf.int64))
        print(f"{float(loss):.4f}")
