"""A session of TensorFlow 1 whose optimizer makes slots for a table on the CPU and for weights."""

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
with tf.device("/cpu:0"):
    table = tf.get_variable("table", [100, 8])
weights = tf.get_variable("weights", [8, 4])
loss = tf.reduce_mean(tf.matmul(tf.gather(table, [1, 2]), weights) ** 2)
averages = tf.train.ExponentialMovingAverage(0.9)
with tf.control_dependencies([tf.train.AdamOptimizer(0.1).minimize(loss)]):
    train = averages.apply([table, weights])
with tf.colocate_with(weights):
    beside_weights = tf.cumsum(loss * tf.ones([3]))
with tf.colocate_with(table):
    beside_table = tf.lgamma(loss)
with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
    session.run(tf.global_variables_initializer())
    for _ in range(4):
        session.run([train, beside_weights, beside_table])
