#!/usr/bin/env python3
"""Eager statistics over batches of bicycle hires: none of it is inside a tf.function.

Usage: program.py LOGDIR
"""

import sys

import numpy as np
import tensorflow as tf

STATIONS = ("harbour", "market", "museum", "park", "station")
BATCHES = 3
HIRES = 400

# Rush-hour hires draw towards the station; the rows are what people do after each stop.
HABITS = tf.constant(
    [
        [0.10, 0.20, 0.10, 0.20, 0.40],
        [0.15, 0.05, 0.20, 0.20, 0.40],
        [0.10, 0.30, 0.05, 0.25, 0.30],
        [0.25, 0.25, 0.20, 0.05, 0.25],
        [0.30, 0.30, 0.20, 0.15, 0.05],
    ],
    tf.float32,
)


def hires_of(batch: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the stops as written by hand, and a row of measurements for each hire."""
    rng = np.random.default_rng(batch)
    stops = [f" {STATIONS[i].title()} " for i in rng.integers(len(STATIONS), size=HIRES)]
    measurements = rng.normal(size=(HIRES, 6)).astype(np.float32)
    return tf.constant(stops), tf.constant(measurements)


def trimmed_mean(values: tf.Tensor) -> np.float32:
    """Return the mean without the two tails, which TensorFlow has no op for."""
    column = values.numpy()
    low, high = np.quantile(column, (0.05, 0.95))
    return column[(column >= low) & (column <= high)].mean(dtype=np.float32)


def busiest_stop(stops: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the stop with most hires, and how many it had."""
    names = tf.strings.lower(tf.strings.strip(stops))
    unique, _, counts = tf.unique_with_counts(names)
    busiest = tf.argmax(counts)
    return unique[busiest], counts[busiest]


def long_run_share(habits: tf.Tensor) -> tf.Tensor:
    """Return where the bicycles end up: the leading left eigenvector of the habits."""
    values, vectors = tf.linalg.eig(tf.transpose(habits))
    leading = tf.math.real(vectors[:, tf.argmax(tf.math.real(values))])
    return leading / tf.reduce_sum(leading)


def covariance(measurements: tf.Tensor) -> tf.Tensor:
    """Return the covariance of the columns over a random half of the rows."""
    half = tf.random.shuffle(measurements)[: HIRES // 2]
    centred = half - tf.reduce_mean(half, axis=0)
    return tf.matmul(centred, centred, transpose_a=True) / (HIRES // 2 - 1)


def describe(batch: int) -> None:
    """Work out the figures of one batch."""
    stops, measurements = hires_of(batch)
    busiest_stop(stops)
    covariance(measurements)
    long_run_share(HABITS)
    # Outside a graph tf.numpy_function is a plain call; tf.py_function is an op even here.
    tf.py_function(trimmed_mean, [measurements[:, 0]], tf.float32)


def main(logdir: str) -> None:
    """Profile the batches after the first, which pays for what happens only once."""
    tf.random.set_seed(7)
    describe(0)
    tf.profiler.experimental.start(logdir)
    for batch in range(BATCHES):
        with tf.profiler.experimental.Trace("batch", step_num=batch, _r=1):
            describe(batch)
    tf.profiler.experimental.stop()


if __name__ == "__main__":
    main(sys.argv[1])
