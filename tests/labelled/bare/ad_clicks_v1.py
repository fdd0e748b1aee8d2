"""Predicts clicks in a session; the table of ads is put on the CPU as papers did."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])

tf1 = tf.compat.v1
with tf.Graph().as_default():
    ads = tf1.placeholder(tf.int64, [None])
    with tf1.device(None if "resource_on_cpu" in FIXED else "/cpu:0"):
        # cpu: AssignVariableOp = resource_on_cpu; * = colocation_group(resource_on_cpu)
        table = tf1.get_variable("ads", [100, 8], use_resource=True)
    shown = tf.nn.embedding_lookup(table, ads)  # cpu: * = resource_on_cpu
    loss = tf.reduce_mean(tf.square(shown - 1.0))
    # cpu: ResourceScatterAdd = resource_on_cpu; * = colocation_group(resource_on_cpu)
    train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        for _ in range(3):
            session.run([train, loss], {ads: [1, 5, 9, 44]})
