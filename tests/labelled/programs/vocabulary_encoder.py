"""Turns part numbers into rows of an embedding by a hash table, and pools them by order."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])

tf.random.set_seed(23)
NUMBERS = tf.range(0, 640, 10, dtype=tf.int64)
UNKNOWN = 64
DENSE = "table" in FIXED
HashTable = tf.lookup.experimental.MutableHashTable

vectors = tf.Variable(tf.random.normal([UNKNOWN + 1, 8]))
slots = tf.fill([640], tf.constant(UNKNOWN, tf.int64))
# cpu: MutableHashTableV2 = no_gpu_kernel(table)
# cpu: LookupTableExportV2 = no_gpu_kernel(table) + resource_on_cpu(table)
places = tf.Variable(slots) if DENSE else HashTable(tf.int64, tf.int64, UNKNOWN)


def put_in_places(parts, rows):
    # cpu: LookupTableInsertV2 = no_gpu_kernel(table) + resource_on_cpu(table)
    _ = places.scatter_nd_update(parts[:, None], rows) if DENSE else places.insert(parts, rows)


@tf.function
def pooled(parts, orders):
    # cpu: LookupTableFindV2 = no_gpu_kernel(table) + resource_on_cpu(table)
    found = tf.gather(places, parts) if DENSE else places.lookup(parts)
    rows = tf.gather(vectors, found)
    return tf.math.unsorted_segment_mean(rows, orders, num_segments=4)


put_in_places(NUMBERS, tf.range(64, dtype=tf.int64))
for at in range(3):
    parts = tf.constant([10, 20, 35, 600, 630, 40, 50, 10], tf.int64) + at
    orders = tf.constant([0, 0, 1, 1, 2, 2, 3, 3])
    print(tf.norm(pooled(parts, orders), axis=1).numpy().round(3))
