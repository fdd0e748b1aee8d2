"""Questions that users asked in public about graphs and sessions of TensorFlow 1."""

from __future__ import annotations

import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()

# tensorflow/tensorflow#9506: why is there no GPU kernel to assign an int32 variable?
with tf.device("/gpu:0"):
    # cpu: * = resource_on_cpu!
    counter = v1.get_variable("counter", shape=[1], dtype=tf.int32, use_resource=True)
    assigned = v1.assign(counter, [23])  # cpu: * = resource_on_cpu!

# tensorflow/tensorflow#22476: why can a scalar summary not be on the GPU?
with tf.device("/gpu:0"):
    loss = tf.reduce_mean(tf.random.stateless_normal([64, 64], [1, 2]) ** 2)
    summary = v1.summary.scalar("loss", loss)  # cpu: ScalarSummary = no_gpu_kernel!

with v1.Session(config=v1.ConfigProto(allow_soft_placement=True)) as session:
    session.run(v1.global_variables_initializer())
    for _ in range(3):
        session.run([assigned, summary])
