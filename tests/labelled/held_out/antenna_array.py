"""Finds from where radio waves come: subspaces of what an array of antennas received."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])
ANTENNAS, SNAPSHOTS = 8, 64


def steering(angles):
    phases = tf.range(ANTENNAS, dtype=tf.float32)[:, None] * 3.1416 * tf.sin(angles)[None, :]
    return tf.complex(tf.cos(phases), tf.sin(phases))


@tf.function
def spectrum(received, angles):
    power = tf.matmul(received, received, adjoint_b=True)
    power = tf.math.real(power) if "dtype_unsupported" in FIXED else power
    scales, basis, _ = tf.linalg.svd(power)  # cpu: Svd = dtype_unsupported
    noise = tf.cast(basis[:, 2:], tf.complex64)
    leaked = tf.matmul(noise, steering(angles), adjoint_a=True)
    return 1.0 / tf.reduce_sum(tf.square(tf.abs(leaked)), axis=0), scales


sources = tf.constant([-0.4, 0.6])
noise = tf.random.stateless_normal([2, ANTENNAS, SNAPSHOTS], (3, 3)) * 0.1
signals = tf.random.stateless_normal([2, 2, SNAPSHOTS], (3, 4))
grid = tf.linspace(-1.4, 1.4, 90)
wave = tf.matmul(steering(sources), tf.complex(signals[0], signals[1]))
wave += tf.complex(noise[0], noise[1])
for _ in range(3):
    peaks, scales = spectrum(wave, grid)
print(f"strongest at {float(grid[tf.argmax(peaks)]):.2f}, scale {float(scales[0]):.1f}")
