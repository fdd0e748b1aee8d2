"""Fits resistance, inductance and capacitance of a circuit to its measured admittance."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])

TAPED = "colocation_group" in FIXED
frequencies = tf.linspace(0.5, 2.0, 64)


def impedance(circuit):
    reactance = frequencies * circuit[1] - 1.0 / (frequencies * circuit[2])
    return tf.complex(tf.fill([64], circuit[0]), reactance)


def admittance(circuit):
    ohms = impedance(circuit)
    if "dtype_unsupported" in FIXED:
        return tf.math.conj(ohms) / tf.complex(tf.abs(ohms) ** 2, 0.0)
    return tf.math.reciprocal(ohms)  # cpu: Reciprocal = colocation_group


measured = admittance(tf.constant([0.5, 1.2, 0.9]))


@tf.function
def descend(circuit):
    with tf.GradientTape() as tape:
        tape.watch(circuit)
        loss = tf.reduce_mean(tf.abs(admittance(circuit) - measured) ** 2)
    # cpu: ReciprocalGrad = dtype_unsupported
    slope = tape.gradient(loss, circuit) if TAPED else tf.gradients(loss, circuit)[0]
    return circuit - 0.05 * slope, loss


guess = tf.constant([1.0, 1.0, 1.0])
for _ in range(4):
    guess, loss = descend(guess)
    print(guess.numpy().round(4), f"{float(loss):.5f}")
