"""Trains an embedding table that lives on the parameter server of a cluster of this machine."""

from __future__ import annotations

import socket
import sys

import numpy as np
import tensorflow as tf

FIXED = set(sys.argv[1:])
REMOTE = "remote_host" not in FIXED


def free_address():
    with socket.create_server(("localhost", 0)) as free:
        return f"localhost:{free.getsockname()[1]}"


cluster = {"ps": [free_address()], "worker": [free_address()]}
servers = [tf.distribute.Server(cluster, job_name=name, task_index=0) for name in cluster]
WORKER = "/job:worker/task:0/device:GPU:0"
setter = tf.compat.v1.train.replica_device_setter(
    cluster=cluster, ps_device="/job:ps/device:CPU:0", worker_device=WORKER
)

soft = tf.compat.v1.ConfigProto(allow_soft_placement=True)
with tf.Graph().as_default(), tf.compat.v1.device(setter if REMOTE else WORKER):
    start = tf.compat.v1.constant_initializer(np.linspace(-1.0, 1.0, 512).reshape(64, 8))
    # cpu: AssignVariableOp = remote_host
    table = tf.compat.v1.get_variable("table", [64, 8], initializer=start, use_resource=True)
    ids = tf.compat.v1.placeholder(tf.int64, [4], "ids")
    rows = tf.gather(table, ids)  # cpu: ResourceGather = remote_host
    loss = tf.reduce_sum(tf.square(rows))
    change = tf.IndexedSlices(0.1 * rows, ids)
    # cpu: ResourceScatterSub, ReadVariableOp = remote_host
    update = table.scatter_sub(change)
    with tf.compat.v1.Session(servers[1].target, config=soft) as session:
        session.run(table.initializer)
        for first in range(3):
            found = session.run([loss, update], {ids: np.arange(first, first + 4)})
print(f"{found[0]:.3f}")
