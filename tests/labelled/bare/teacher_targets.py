"""Distils a teacher that a training step calls in a scope for the CPU."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])

big = tf.Variable(tf.ones([8, 32]))
small = tf.Variable(tf.ones([8, 32]))


@tf.function
def teacher(rows):
    return tf.nn.softmax(tf.tanh(tf.matmul(rows, big)))  # cpu: * = caller_device_scope_cpu


@tf.function
def step(rows):
    with tf.device(None if "caller_device_scope_cpu" in FIXED else "/CPU:0"):
        wanted = teacher(rows)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.nn.softmax(tf.matmul(rows, small)) - wanted))
    small.assign_sub(tape.gradient(loss, small))
    return loss


for _ in range(3):
    step(tf.ones([16, 8]))
