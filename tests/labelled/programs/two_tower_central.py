"""Trains a recommender's users under CentralStorageStrategy, for two GPUs of little memory."""
# run: gpus=2

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])
if "distribution_strategy_cpu" in FIXED:
    by_copies = tf.distribute.HierarchicalCopyAllReduce()
    strategy = tf.distribute.MirroredStrategy(cross_device_ops=by_copies)
else:
    strategy = tf.distribute.experimental.CentralStorageStrategy()

start = tf.random.stateless_normal([32, 16], (6, 6))
with strategy.scope():
    # cpu: VarHandleOp, AssignVariableOp = distribution_strategy_cpu
    users = tf.Variable(start, name="users", aggregation=tf.VariableAggregation.MEAN)

wanted = tf.random.stateless_normal([4, 16], (7, 7))


def replica_step(ids):
    with tf.GradientTape() as tape:
        # cpu: ResourceGather = distribution_strategy_cpu
        rows = tf.gather(users, ids)
        loss = tf.reduce_sum(tf.square(rows - wanted))
    gradient = tf.convert_to_tensor(tape.gradient(loss, users))
    users.assign_sub(0.1 * gradient)
    return loss


@tf.function
def step(ids):
    # cpu: AssignSubVariableOp, Mul, AddN = distribution_strategy_cpu
    return strategy.run(replica_step, args=(ids,))


for _ in range(3):
    loss = strategy.experimental_local_results(step(tf.constant([1, 5, 7, 30], tf.int64)))
print(f"loss {float(loss[0]):.3f}")
