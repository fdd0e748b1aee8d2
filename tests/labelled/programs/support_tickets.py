"""Sorts support tickets into queues by the words in them."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])
WORDS, BUCKETS, QUEUES = 6, 64, 3
TICKETS = [
    "My parcel has not Arrived yet",
    "please REFUND the second invoice now",
    "cannot log in with password",
    "the parcel came broken and wet",
]

tf.random.set_seed(4)
table = tf.Variable(tf.random.normal([BUCKETS, 8]))
weights = tf.Variable(tf.random.normal([8, QUEUES]))
words = [(ticket.split() + [""] * WORDS)[:WORDS] for ticket in TICKETS]
# Numbers for words, as a preparation before would give them.
numbers = [[sum(word.encode()) for word in ticket] for ticket in words]
given = tf.constant(numbers, tf.int64) if "no_gpu_kernel" in FIXED else tf.constant(words)


@tf.function
def ranks(given):
    is_text = given.dtype == tf.string
    low = tf.strings.lower(given) if is_text else given + 1  # cpu: StringLower = no_gpu_kernel
    # cpu: StringToHashBucketFast = no_gpu_kernel
    ids = tf.strings.to_hash_bucket_fast(low, BUCKETS) if is_text else low & (BUCKETS - 1)
    tickets = tf.reduce_mean(tf.nn.embedding_lookup(table, ids), axis=1)
    return tf.nn.softmax(tf.matmul(tickets, weights))


for _ in range(2):
    found = ranks(given)
print("queues:", tf.argmax(found, axis=1).numpy().tolist())
