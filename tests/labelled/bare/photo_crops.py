"""Augments photos with a function that is called in a scope for the CPU."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])

sharpen = tf.Variable(tf.ones([3, 3, 3, 4]))


@tf.function
def augment(photos):
    bright = tf.image.adjust_contrast(photos, 1.5)  # cpu: * = caller_device_scope_cpu
    # cpu: * = caller_device_scope_cpu
    return tf.clip_by_value(tf.image.flip_left_right(bright), 0.0, 1.0)


@tf.function
def features(photos):
    return tf.reduce_mean(tf.nn.relu(tf.nn.conv2d(photos, sharpen, 1, "SAME")))


photos = tf.abs(tf.sin(tf.reshape(tf.range(3072.0), [4, 16, 16, 3])))
for _ in range(3):
    with tf.device(None if "caller_device_scope_cpu" in FIXED else "/CPU:0"):
        varied = augment(photos)
    features(varied)
