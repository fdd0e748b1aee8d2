"""Teaches a small network what a large one thinks; the large one is asked on the host."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])

tf.random.set_seed(17)
teacher = [tf.Variable(tf.random.normal(shape, stddev=0.3)) for shape in ([10, 64], [64, 4])]
student = tf.Variable(tf.random.normal([10, 4], stddev=0.3))
CALLED_ON = None if "caller_device_scope_cpu" in FIXED else "/CPU:0"
SOFTENED_ON = None if "explicit_cpu_placement" in FIXED else "/CPU:0"


@tf.function
def opinions(features):
    hidden = tf.nn.gelu(tf.matmul(features, teacher[0]))  # cpu: * = caller_device_scope_cpu
    logits = tf.matmul(hidden, teacher[1])  # cpu: * = caller_device_scope_cpu
    with tf.device(SOFTENED_ON):
        # cpu: * = caller_device_scope_cpu + explicit_cpu_placement
        return tf.nn.softmax(logits / 4.0)


@tf.function
def learn(features):
    with tf.device(CALLED_ON):
        wanted = opinions(features)
    with tf.GradientTape() as tape:
        logits = tf.matmul(features, student)
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(wanted, logits))
    student.assign_sub(0.1 * tape.gradient(loss, student))
    return loss


for _ in range(3):
    print(f"{float(learn(tf.random.normal([16, 10]))):.4f}")
