"""Trains a filter that sharpens thumbnails after they are enlarged, and rates it by its PSNR."""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf

FIXED = set(sys.argv[1:])
METHOD = "bilinear" if "no_gpu_kernel" in FIXED else "bicubic"
IN_GRAPH = "python_callback" in FIXED

pictures = tf.constant(np.random.default_rng(2).random((6, 24, 24, 3), dtype=np.float32))
kernel = tf.Variable(tf.random.stateless_normal([3, 3, 3, 3], (1, 8)) * 0.1)
optimizer = tf.keras.optimizers.SGD(0.01)


def decibels(truth, guess):
    error = np.mean((truth - guess) ** 2, axis=(1, 2, 3))
    return (10 * np.log10(1.0 / error)).astype("float32")


@tf.function
def step(truth):
    small = tf.nn.avg_pool2d(truth, 2, 2, "VALID")
    large = tf.image.resize(small, [24, 24], METHOD)  # cpu: ResizeBicubic = no_gpu_kernel
    with tf.GradientTape() as tape:
        guess = large + tf.nn.conv2d(large, kernel, 1, "SAME")
        loss = tf.reduce_mean(tf.abs(guess - truth))
    optimizer.apply_gradients([(tape.gradient(loss, kernel), kernel)])
    pair = [truth, guess]
    # cpu: PyFunc = python_callback
    rating = tf.image.psnr(*pair, 1) if IN_GRAPH else tf.numpy_function(decibels, pair, tf.float32)
    return loss, rating


for _ in range(3):
    loss, rating = step(pictures)
print(f"loss {float(loss):.4f}, PSNR {float(tf.reduce_mean(rating)):.2f} dB")
