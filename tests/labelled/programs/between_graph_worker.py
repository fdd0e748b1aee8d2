"""A v1 worker whose gradients a parameter server adds up, both in a cluster of this machine."""

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
SERVER = "/job:ps/task:0/device:CPU:0" if REMOTE else WORKER

rng = np.random.default_rng(7)
soft = tf.compat.v1.ConfigProto(allow_soft_placement=True)
with tf.Graph().as_default():
    rows = tf.compat.v1.placeholder(tf.float32, [16, 8], "rows")
    with tf.device(WORKER):
        correlation = tf.matmul(rows, rows, transpose_a=True)
    with tf.device(SERVER):
        scaled = correlation / 16.0  # cpu: Mul = remote_host
        shares = tf.nn.softmax(scaled)  # cpu: Softmax = remote_host
    with tf.device(WORKER):
        result = tf.matmul(rows, shares)
    with tf.compat.v1.Session(servers[1].target, config=soft) as session:
        for _ in range(3):
            found = session.run(result, {rows: rng.normal(size=(16, 8))})
print(f"{found.mean():.4f}")
