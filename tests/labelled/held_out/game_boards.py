"""Scores moves on game boards: masks of what is allowed are made on the host."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])
HOST = None if "explicit_cpu_placement" in FIXED else "/CPU:0"
SIZE = [9, 9]

kernel = tf.Variable(tf.random.stateless_normal([3, 3, 1, 1], (2, 2)) * 0.2)


def fresh():
    by_op = "library_cpu_placement" in FIXED
    with tf.device(HOST):
        # cpu: * = explicit_cpu_placement + library_cpu_placement
        return tf.fill(SIZE, value=True) if by_op else tf.constant(value=True, shape=SIZE)


@tf.function
def best_move(board, allowed):
    scores = tf.nn.conv2d(board[None, :, :, None], kernel, 1, "SAME")[0, :, :, 0]
    masked = tf.where(allowed, scores, -1e9)
    return tf.argmax(tf.reshape(masked, [-1]))


found = []
for game in range(3):
    board = tf.random.stateless_normal(SIZE, (7, game))
    allowed = tf.logical_and(fresh(), board < 1.0)
    found.append(int(best_move(board, allowed)))
print("moves", found)
