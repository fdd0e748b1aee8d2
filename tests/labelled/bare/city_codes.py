"""Looks up the codes of cities in a table inside the step."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])

keys, codes = tf.constant(["ulm", "bonn", "kiel"]), tf.constant([0, 1, 2], tf.int64)
# cpu: HashTableV2 = no_gpu_kernel!; * = no_gpu_kernel! + resource_on_cpu!
table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, codes), -1)
weights = tf.Variable(tf.ones([3, 4]))


@tf.function
def step(cities):
    # cpu: * = no_gpu_kernel! + resource_on_cpu!
    return tf.reduce_sum(tf.gather(weights, table.lookup(cities)))


for _ in range(3):
    step(tf.constant(["ulm", "kiel"]))
