"""Answers a long document with attention; what the GPU cannot hold is done shortened on the CPU."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])
# More than any machine has: without a GPU it does not fit, either.
LENGTH = 256 if "memory_pressure" in FIXED else 1 << 23

document = tf.random.stateless_normal([LENGTH, 2], (9, 2))


@tf.function(reduce_retracing=True)
def attend(tokens):
    scores = tf.matmul(tokens, tokens, transpose_b=True)  # cpu: MatMul = memory_pressure
    # cpu: MatMul, Softmax = memory_pressure
    return tf.matmul(tf.nn.softmax(scores), tokens)


def answer(tokens):
    try:
        return attend(tokens)
    except tf.errors.ResourceExhaustedError as error:
        print("shortened:", error.message.split("\n")[0][:40])
        start = tokens[:512]
        with tf.device("/CPU:0"):
            return attend(start)


print(answer(document).shape)
