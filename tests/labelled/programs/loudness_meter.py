"""A level meter for sound: peaks of 16 bit samples, and the loudness of what a filter lets pass."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])
FRAME = 64
SAMPLE = tf.float32 if "dtype_unsupported" in FIXED else tf.int16

tf.random.set_seed(13)
filter_taps = tf.random.normal([9, 1, 1], stddev=0.3)


@tf.function
def levels(samples):
    frames = tf.reshape(samples, [-1, FRAME])
    peaks = tf.reduce_max(frames, axis=1)  # cpu: Max = dtype_unsupported
    sound = tf.cast(frames, tf.float32) / 32768.0
    passed = tf.nn.conv1d(sound[:, :, None], filter_taps, 1, "SAME")
    power = tf.reduce_mean(tf.square(passed), axis=[1, 2])
    return tf.cast(peaks, tf.float32) / 32768.0, 10.0 * tf.math.log(power) / tf.math.log(10.0)


time = tf.linspace(0.0, 100.0, 16 * FRAME)
for loud in (2000.0, 20000.0):
    sound = tf.cast(loud * tf.sin(time), tf.int16)
    peaks, decibels = levels(tf.cast(sound, SAMPLE))
    print(f"peak {float(tf.reduce_max(peaks)):.2f}, {float(tf.reduce_mean(decibels)):.1f} dB")
