"""Clips gradients by their norm, in a scope that someone left around it."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])

kernel = tf.Variable(tf.ones([16, 16]))
bias = tf.Variable(tf.zeros([16]))


@tf.function
def step(rows):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(tf.tanh(tf.matmul(rows, kernel) + bias)))
    slopes = tape.gradient(loss, [kernel, bias])
    with tf.device(None if "explicit_cpu_placement" in FIXED else "/CPU:0"):
        slopes, _ = tf.clip_by_global_norm(slopes, 1.0)  # cpu: * = explicit_cpu_placement
    kernel.assign_sub(0.1 * slopes[0])
    bias.assign_sub(0.1 * slopes[1])
    return loss


for _ in range(3):
    step(tf.ones([8, 16]))
