"""Cuts pictures of any size into tiles; an optimizer keeps the arithmetic of shapes on the host."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])
if "grappler_pin_to_host" not in FIXED:
    tf.config.optimizer.set_experimental_options({"pin_to_host_optimization": True})
TILE = 8


@tf.function(input_signature=[tf.TensorSpec([None, None], tf.float32)])
def tiles(picture):
    size = tf.shape(picture)
    counts = size // TILE  # cpu: FloorDiv = grappler_pin_to_host
    across = counts[1] * TILE  # cpu: StridedSlice, Mul = grappler_pin_to_host
    down = counts[0] * TILE  # cpu: StridedSlice, Mul = grappler_pin_to_host
    cut = tf.slice(picture, [0, 0], [down, across])  # cpu: Pack = grappler_pin_to_host
    # cpu: Pack = grappler_pin_to_host
    apart = tf.reshape(cut, [counts[0], TILE, counts[1], TILE])
    means = tf.reduce_mean(apart, axis=[1, 3])
    number = tf.size(means)
    places = tf.range(number)
    share = tf.cast(number, tf.float32)  # cpu: Cast = grappler_pin_to_host
    return means * 2.0, share, places


for side in (16, 40, 33):
    means, share, places = tiles(tf.random.stateless_uniform([side, side + 9], (1, side)))
print(f"{float(tf.reduce_sum(means)):.3f} {float(share):.0f} {places.shape[0]}")
