"""Writes a summary of the loss inside the training step."""

from __future__ import annotations

import sys
import tempfile

import tensorflow as tf

FIXED = set(sys.argv[1:])

weights = tf.Variable(tf.ones([8, 1]))
# cpu: SummaryWriter = library_cpu_placement! + no_gpu_kernel!
# cpu: * = no_gpu_kernel! + resource_on_cpu!
writer = tf.summary.create_file_writer(tempfile.mkdtemp())


@tf.function
def step(rows, number):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.matmul(rows, weights)))
    weights.assign_sub(0.01 * tape.gradient(loss, weights))
    with writer.as_default():  # cpu: * = no_gpu_kernel! + resource_on_cpu!
        # cpu: WriteSummary = no_gpu_kernel! + resource_on_cpu!
        tf.summary.scalar("loss", loss, number)
        # cpu: WriteSummary = no_gpu_kernel! + resource_on_cpu!; * = library_cpu_placement!
        tf.summary.histogram("weights", weights, number)


for number in range(3):
    step(tf.ones([4, 8]), tf.constant(number, tf.int64))
