"""Ratings of a survey: means by question, compared with those that a model predicts."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])
PEOPLE, QUESTIONS = 200, 12

tf.random.set_seed(21)
answers = tf.random.uniform([PEOPLE, QUESTIONS], 1, 6, tf.int64)
answers = tf.cast(answers, tf.float32) if "dtype_unsupported" in FIXED else answers
groups = tf.random.normal([PEOPLE, 4])
weights = tf.Variable(tf.zeros([4, QUESTIONS]))


@tf.function
def fit(answers):
    mean = tf.reduce_mean(answers, axis=0)  # cpu: Mean = dtype_unsupported
    highest = tf.reduce_max(answers, axis=0)
    wanted = tf.cast(answers - mean, tf.float32)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(groups @ weights - wanted))
    weights.assign_sub(0.1 * tape.gradient(loss, weights))
    return tf.cast(highest - mean, tf.float32), loss


for _ in range(3):
    spread, loss = fit(answers)
print(f"loss {float(loss):.3f}, widest spread {float(tf.reduce_max(spread)):.0f}")
