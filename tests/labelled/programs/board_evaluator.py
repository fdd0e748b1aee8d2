"""Evaluates positions of a board game: where pieces stand, looked up in tables of their worth."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])
# Out of caution: a square off the board is an error, and the look-up stays beside the rules.
POLICY = "DEFAULT" if "attr_unsupported" in FIXED else "ERROR"
RULES = None if "explicit_cpu_placement" in FIXED else "/CPU:0"

tf.random.set_seed(31)
worth = tf.Variable(tf.random.normal([8, 8]))
strength = tf.Variable(tf.ones([5, 1]))


@tf.function
def evaluate(squares, pieces):
    table = tf.nn.tanh(worth)
    with tf.device(RULES):
        # cpu: GatherNd = attr_unsupported + explicit_cpu_placement
        standing = tf.gather_nd(table, squares, bad_indices_policy=POLICY)
    kinds = tf.matmul(pieces, strength)[:, :, 0]
    return tf.reduce_sum(standing * kinds, axis=1)


squares = tf.constant([[[0, 0], [1, 4], [6, 2]], [[7, 7], [3, 3], [4, 3]]])
for turn in range(2):
    pieces = tf.random.stateless_uniform([2, 3, 5], [turn, 3])
    values = evaluate(squares, pieces)
print("positions:", values.numpy().round(2).tolist())
