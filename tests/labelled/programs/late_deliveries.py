"""Fills in what is not known of deliveries, kept as optional values, and estimates the delay."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])
# An eager op without a device goes where its kernel has the higher priority.
DEVICE = "/GPU:0" if "kernel_priority" in FIXED else None
OPS = tf.raw_ops

tf.random.set_seed(17)
weights = tf.Variable(tf.random.normal([3, 1]))


def reported(delay):
    """Return what a driver has reported, which may be nothing."""
    with tf.device(DEVICE):
        # cpu: OptionalNone, OptionalFromValue = kernel_priority
        return OPS.OptionalNone() if delay is None else OPS.OptionalFromValue(components=[delay])


def delay_of(optional, parcel):
    with tf.device(DEVICE):
        if OPS.OptionalHasValue(optional=optional):  # cpu: OptionalHasValue = kernel_priority
            types, shapes = [tf.float32], [[1]]
            # cpu: OptionalGetValue = kernel_priority
            return OPS.OptionalGetValue(optional=optional, output_types=types, output_shapes=shapes)
    return tf.nn.relu(tf.matmul(parcel, weights))[0]


parcels = tf.random.uniform([4, 1, 3])
delays = [tf.constant([3.0]), None, tf.constant([1.0]), None]
found = [delay_of(reported(d), parcel) for d, parcel in zip(delays, tf.unstack(parcels))]
hours = [tf.reshape(each, [1]) for each in found]
print("hours late:", tf.concat(hours, 0).numpy().round(1).tolist())
