"""Embeds ingredients of recipes, with parameters that a strategy keeps in one central place."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])
PLACE = "/GPU:0" if "distribution_strategy_cpu" in FIXED else "/CPU:0"
strategy = tf.distribute.experimental.CentralStorageStrategy(["/GPU:0"], PLACE)

first = tf.random.stateless_normal([60, 8], (18, 1)) * 0.1
with strategy.scope():
    # cpu: VarHandleOp, AssignVariableOp = distribution_strategy_cpu
    ingredients = tf.Variable(first, name="ingredients")
recipes = tf.random.stateless_uniform([24, 5], (18, 2), maxval=60, dtype=tf.int32)


def sweetness(ids):
    rows = tf.gather(ingredients, ids)  # cpu: * = distribution_strategy_cpu
    mixed = tf.reduce_mean(tf.matmul(rows, rows, transpose_b=True), axis=[1, 2])
    return tf.reduce_mean(tf.tanh(mixed))


@tf.function
def taste(ids):
    return strategy.run(sweetness, [ids])


for _ in range(3):
    value = taste(recipes)
print(f"sweetness {float(value):.5f}")
