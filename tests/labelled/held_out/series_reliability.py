"""Raises the reliability of a machine whose parts must all work, by the steepest way up."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])
BY_LOGARITHMS = "library_cpu_placement" in FIXED

costs = tf.constant([1.0, 2.5, 0.5, 1.5])
effort = tf.Variable(tf.zeros([6, 4]), name="effort")


def works(chances):
    if BY_LOGARITHMS:
        return tf.exp(tf.reduce_sum(tf.math.log(chances), axis=1))
    return tf.reduce_prod(chances, axis=1)


for _ in range(3):
    with tf.GradientTape() as tape:
        chance = works(tf.sigmoid(effort + 1.0))
        spent = tf.linalg.matvec(tf.nn.softplus(effort), costs)
        gain = tf.reduce_mean(chance) - 0.01 * tf.reduce_mean(spent)
    # The gradient of a product computes in a scope of its own how it folds the axes.
    # cpu: ListDiff = library_cpu_placement + no_gpu_kernel(library_cpu_placement)
    # cpu: * = library_cpu_placement
    upwards = tape.gradient(gain, effort)
    effort.assign_add(2.0 * upwards)
print(f"works with a chance of {float(tf.reduce_mean(chance)):.4f}")
