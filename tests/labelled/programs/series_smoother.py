"""Smooths a series in a v1 session that was told to have no GPU."""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf

FIXED = set(sys.argv[1:])
config = tf.compat.v1.ConfigProto()
if "no_gpu_visible" not in FIXED:
    config.device_count["GPU"] = 0

series = np.cumsum(np.random.default_rng(2).normal(size=256)).astype("float32")
with tf.Graph().as_default():
    values = tf.compat.v1.placeholder(tf.float32, [256], "values")
    spectrum = tf.signal.rfft(values)  # cpu: RFFT = no_gpu_visible
    mask = tf.constant([1.0] * 20 + [0.0] * 109, tf.complex64)
    low = spectrum * mask  # cpu: Mul = no_gpu_visible
    smooth = tf.signal.irfft(low)  # cpu: IRFFT = no_gpu_visible
    with tf.compat.v1.Session(config=config) as session:
        for _ in range(3):
            series = session.run(smooth, {values: series})
print(f"{series.std():.3f}")
