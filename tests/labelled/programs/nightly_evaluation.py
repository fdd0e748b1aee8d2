"""Evaluates a classifier at night, on the host, so that training can go on; so it was meant."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])

CLASSES = 5
tf.random.set_seed(13)
first = tf.Variable(tf.random.normal([12, 16], stddev=0.3))
second = tf.Variable(tf.random.normal([16, CLASSES], stddev=0.3))
COUNTS = tf.float64 if "dtype_unsupported" in FIXED else tf.int32


@tf.function
def confusion(features, labels):
    hidden = tf.nn.relu(tf.matmul(features, first))  # cpu: * = caller_device_scope_cpu
    guessed = tf.argmax(tf.matmul(hidden, second), axis=1)  # cpu: * = caller_device_scope_cpu
    told = tf.one_hot(guessed, CLASSES, dtype=COUNTS)  # cpu: * = caller_device_scope_cpu
    true = tf.one_hot(labels, CLASSES, dtype=COUNTS)  # cpu: * = caller_device_scope_cpu
    # cpu: MatMul = caller_device_scope_cpu + dtype_unsupported
    return tf.matmul(true, told, transpose_a=True)


def evaluated(batches):
    total = tf.zeros([CLASSES, CLASSES], COUNTS)
    for features, labels in batches:
        with tf.device(None if "caller_device_scope_cpu" in FIXED else "/CPU:0"):
            found = confusion(features, labels)
        total += found
    return total


drawn = tf.random.stateless_normal([90, 12], seed=[1, 5])
classes = tf.random.stateless_uniform([90], [2, 5], maxval=CLASSES, dtype=tf.int32)
print(evaluated([(drawn[at : at + 30], classes[at : at + 30]) for at in (0, 30, 60)]).numpy())
