"""A graph of old: parameters on the host, a tower on the GPU, gradients by hand."""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf

FIXED = set(sys.argv[1:])
v1 = tf.compat.v1
v1.disable_eager_execution()
v1.set_random_seed(3)


def towers(op):
    if op.type == "VarHandleOp" and "resource_on_cpu" not in FIXED:
        return "/CPU:0"
    return ""


rng = np.random.default_rng(3)
given = rng.normal(size=(32, 12)).astype("float32")
wanted = given[:, :1] * 2 - given[:, 3:4]

features = v1.placeholder(tf.float32, [None, 12])
targets = v1.placeholder(tf.float32, [None, 1])
start = tf.constant(rng.normal(size=(12, 1)).astype("float32"))
with v1.device(towers):
    # cpu: AssignVariableOp = resource_on_cpu
    kernel = v1.get_variable("kernel", initializer=start, use_resource=True)
weights = kernel.read_value()  # cpu: ReadVariableOp = resource_on_cpu
errors = tf.matmul(features, weights) - targets
loss = tf.reduce_mean(tf.square(errors))
(slope,) = tf.gradients(loss, [weights])
train = kernel.assign_sub(0.1 * slope).op  # cpu: * = resource_on_cpu

config = v1.ConfigProto(allow_soft_placement=True)
with v1.Session(config=config) as session:
    session.run(v1.global_variables_initializer())
    for _ in range(5):
        value, _ = session.run([loss, train], {features: given, targets: wanted})
print(f"loss {value:.4f}")
