"""Calibrates gates of a quantum computer: which turn each did, by the logarithm of a matrix."""

from __future__ import annotations

import contextlib
import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])
inverse = tf.linalg.inv if "no_gpu_kernel" in FIXED else tf.linalg.logm


def beside(tensor):
    if "colocation_group" in FIXED:
        return contextlib.nullcontext()
    return tf.compat.v1.colocate_with(tensor.op)


strength = tf.Variable(tf.ones([8]))
parts = tf.random.stateless_normal([2, 8, 4, 4], (15, 1)) * 0.1
drift = tf.complex(parts[0], parts[1])
gates = tf.linalg.expm(drift - tf.linalg.adjoint(drift))


@tf.function
def turns(measured):
    turned = inverse(measured)  # cpu: MatrixLogarithm = no_gpu_kernel
    with beside(turned):
        angles = tf.abs(turned)  # cpu: * = colocation_group
        largest = tf.reduce_max(angles, axis=[1, 2])  # cpu: * = colocation_group
    return tf.sqrt(largest)


@tf.function
def calibrate(wanted):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.sin(strength) - wanted))
    strength.assign_sub(0.3 * tape.gradient(loss, strength))
    return loss


for _ in range(3):
    loss = calibrate(turns(gates))
print(f"loss {float(loss):.4f}")
