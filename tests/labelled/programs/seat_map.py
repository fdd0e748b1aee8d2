"""Scores seats of a hall for groups of guests: what a seat is worth, looked up by row and place."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])
ROWS, PLACES = 8, 12
# What is outside the hall is an error; or is nothing worth.
OUTSIDE = "IGNORE" if "attr_unsupported" in FIXED else "ERROR"

tf.random.set_seed(30)
worth = tf.Variable(tf.random.uniform([ROWS, PLACES]))
taste = tf.random.normal([4, 4], stddev=0.1)


@tf.function
def scores(seats, guests):
    liked = tf.nn.softmax(tf.matmul(guests, taste))
    hall = tf.nn.sigmoid(worth)
    # cpu: GatherNd = attr_unsupported
    found = tf.gather_nd(hall, seats, bad_indices_policy=OUTSIDE)
    return found * tf.reduce_max(liked, axis=1, keepdims=True)


seats = tf.constant([[[0, 1], [0, 2], [0, 3]], [[7, 9], [7, 10], [7, 11]]])
for _ in range(2):
    found = scores(seats, tf.random.normal([2, 4]))
print("best seats:", tf.argmax(found, axis=1).numpy().tolist())
