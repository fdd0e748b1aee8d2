"""Takes the noise out of a recording, frame by frame, by spectral subtraction."""

from __future__ import annotations

import math
import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])

RATE, FRAME, HOP = 8000, 256, 128

time = tf.range(RATE, dtype=tf.float32) / RATE
tone = tf.sin(2.0 * math.pi * 440.0 * time)
recording = tone + 0.3 * tf.random.stateless_normal([RATE], seed=[1, 2])
window = tf.signal.hann_window(FRAME)
frames = tf.signal.frame(recording, FRAME, HOP) * window


def denoised(block, noise_level):
    spectrum = tf.signal.rfft(block)
    power = tf.abs(spectrum)
    gain = tf.maximum(power - noise_level, 0.05 * power) / (power + 1e-6)
    return tf.signal.irfft(spectrum * tf.cast(gain, tf.complex64))


# An old habit: transforms once lacked a kernel, so the noise floor is measured on the host.
with tf.device(None if "explicit_cpu_placement" in FIXED else "/CPU:0"):
    quiet = tf.signal.rfft(frames[:8])  # cpu: * = explicit_cpu_placement
    floor = tf.sqrt(tf.reduce_mean(tf.abs(quiet) ** 2, axis=0))  # cpu: * = explicit_cpu_placement
    loudest = tf.argmax(floor, output_type=tf.int64)  # cpu: * = explicit_cpu_placement

for start in range(0, 48, 16):
    clean = denoised(frames[start : start + 16], floor)
    print(f"{start}: {float(tf.reduce_max(clean)):.3f} above bin {int(loudest)}")
