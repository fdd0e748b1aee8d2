"""Finds how a damped footbridge vibrates, and tunes the stiffness of its cables by that."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])
SPANS = 12

springs = tf.Variable(tf.linspace(1.0, 3.0, SPANS))
damping = tf.random.stateless_normal([SPANS, SPANS], (5, 1)) * 0.01


def state_matrix(stiffness):
    middle = tf.linalg.diag(2.0 * stiffness)
    beside = tf.linalg.diag(stiffness[1:], k=1) + tf.linalg.diag(stiffness[1:], k=-1)
    return middle - beside + damping


@tf.function
def frequencies(stiffness):
    matrix = state_matrix(stiffness)
    solve = tf.linalg.eigvalsh if "no_gpu_kernel" in FIXED else tf.linalg.eigvals
    values = solve(matrix)  # cpu: Eig = no_gpu_kernel
    return tf.sqrt(tf.abs(values))


@tf.function
def tune(target):
    with tf.GradientTape() as tape:
        matrix = state_matrix(springs)
        stored = tf.linalg.matvec(matrix, tf.ones([SPANS]))
        loss = tf.reduce_mean(tf.square(stored - target))
    springs.assign_sub(0.05 * tape.gradient(loss, springs))
    return loss


for _ in range(4):
    loss = tune(1.5)
found = frequencies(springs)
print(f"loss {float(loss):.4f}, highest {float(tf.reduce_max(found)):.3f}")
