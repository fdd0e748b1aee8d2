"""Learns to balance a pole: a simulator in Python moves it, a small network chooses the force."""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf

FIXED = set(sys.argv[1:])
TRACED = "python_callback" in FIXED
MEMORY = None if "explicit_cpu_placement" in FIXED else "/device:CPU:0"

hidden = tf.Variable(tf.random.stateless_normal([2, 16], (21, 1)) * 0.5)
output = tf.Variable(tf.random.stateless_normal([16, 1], (21, 2)) * 0.5)


def simulate(state, force):
    speed = state[:, 1] + 0.05 * (np.sin(state[:, 0]) + force[:, 0])
    return np.stack([state[:, 0] + 0.05 * speed, speed], axis=1).astype("float32")


@tf.function
def choose(state):
    return tf.tanh(tf.matmul(tf.tanh(tf.matmul(state, hidden)), output))


@tf.function
def moved(state, force):
    both = [state, force]
    # cpu: PyFunc = python_callback
    return state + 0.05 * force if TRACED else tf.numpy_function(simulate, both, tf.float32)


state = tf.random.stateless_normal([8, 2], (21, 3)) * 0.2
seen = []
for _ in range(5):
    state = tf.ensure_shape(moved(state, choose(state)), [8, 2])
    seen.append(state)
with tf.device(MEMORY):
    history = tf.stack(seen)  # cpu: Pack = explicit_cpu_placement
    spread = tf.math.reduce_std(history, axis=0)  # cpu: * = explicit_cpu_placement
print(f"spread {float(tf.reduce_mean(spread)):.4f}")
