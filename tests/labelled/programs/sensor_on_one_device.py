"""Trains an autoregressive sensor model with the strategy that its configuration names."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])
CONFIG = {"device": "/GPU:0" if "distribution_strategy_cpu" in FIXED else "/CPU:0"}

strategy = tf.distribute.OneDeviceStrategy(CONFIG["device"])
readings = tf.math.sin(tf.reshape(tf.linspace(0.0, 50.0, 512), [64, 8]))
with strategy.scope():
    # cpu: VarHandleOp, AssignVariableOp = distribution_strategy_cpu
    weights = tf.Variable(tf.random.stateless_normal([7, 1], (1, 1)), name="weights")


def replica_step(rows):
    with tf.GradientTape() as tape:
        # cpu: MatMul, StridedSlice, ReadVariableOp = distribution_strategy_cpu
        guess = tf.matmul(rows[:, :7], weights)
        # cpu: Square, Sub, StridedSlice, Mean = distribution_strategy_cpu
        loss = tf.reduce_mean(tf.square(guess - rows[:, 7:]))
    # cpu: MatMul, Mul, AssignSubVariableOp = distribution_strategy_cpu
    weights.assign_sub(0.05 * tape.gradient(loss, weights))
    return loss


@tf.function
def step(rows):
    return strategy.run(replica_step, args=(rows,))


for _ in range(4):
    loss = step(readings)
print(f"loss {float(loss):.4f}")
