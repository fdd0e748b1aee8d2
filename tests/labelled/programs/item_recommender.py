"""Two towers, whose table of items was thought too large for the GPU."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])

tf.random.set_seed(19)
with tf.device("/GPU:0" if "resource_on_cpu" in FIXED else "/CPU:0"):
    # cpu: VarHandleOp, Fill = explicit_cpu_placement(resource_on_cpu); * = resource_on_cpu
    items = tf.Variable(tf.zeros([500, 16]))
items.assign(tf.random.normal([500, 16], stddev=0.1))  # cpu: AssignVariableOp = resource_on_cpu
users = tf.Variable(tf.random.normal([60, 16], stddev=0.1))


@tf.function
def train(user_ids, item_ids, liked):
    with tf.GradientTape() as tape:
        who = tf.nn.embedding_lookup(users, user_ids)
        with tf.device("/GPU:0"):
            what = tf.nn.embedding_lookup(items, item_ids)  # cpu: ResourceGather = resource_on_cpu
        logits = tf.reduce_sum(who * what, axis=1)
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(liked, logits))
    of_users, of_items = tape.gradient(loss, [users, items])
    users.scatter_sub(of_users)
    items.scatter_sub(of_items)  # cpu: ResourceScatterSub = resource_on_cpu
    return loss


@tf.function
def nearest(user_ids):
    who = tf.gather(users, user_ids)
    # The scope does nothing here: the table is read where it lives.
    with tf.device("/CPU:0"):
        table = items.read_value()  # cpu: ReadVariableOp = resource_on_cpu
    return tf.math.top_k(tf.matmul(who, table, transpose_b=True), k=3).indices


chosen = tf.random.stateless_uniform([3, 32], [1, 9], maxval=60, dtype=tf.int64)
for ids in chosen:
    loss = train(ids, ids * 7, tf.cast(ids % 2 == 0, tf.float32))
    print(f"{float(loss):.4f}", nearest(ids[:2]).numpy().tolist())
