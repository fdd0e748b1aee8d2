"""Tags articles with a Keras model, whose embedding is built in a scope for the CPU."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])

tf.keras.utils.set_random_seed(1)
with tf.device(None if "resource_on_cpu" in FIXED else "/CPU:0"):
    words = tf.keras.layers.Embedding(200, 8)
    # cpu: AssignVariableOp = resource_on_cpu; * = explicit_cpu_placement(resource_on_cpu)
    words.build()
inputs = tf.keras.Input([6], dtype="int64")
hidden = tf.keras.layers.Dense(8, "relu")(tf.keras.layers.Flatten()(words(inputs)))
model = tf.keras.Model(inputs, tf.keras.layers.Dense(1)(hidden))
model.compile("sgd", "mse", jit_compile=False)
x = tf.reshape(tf.range(384, dtype=tf.int64) * 7 % 200, [64, 6])
# cpu: ReadVariableOp, ResourceScatterSub = resource_on_cpu
model.fit(x, tf.ones([64, 1]), epochs=2, verbose=0)
