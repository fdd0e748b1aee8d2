"""A session of TensorFlow 1 that runs between the making of its ops: its graph grows."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
session = tf.Session(config=tf.ConfigProto(allow_soft_placement=True))
with tf.device("/cpu:0"):
    table = tf.Variable(tf.ones([3, 3]), name="table")
    noise = tf.random.uniform([3, 3], name="noise")
count = tf.Variable(0, name="count")
weights = tf.Variable(tf.ones([3, 3]), name="weights")
queue = tf.queue.FIFOQueue(32, [tf.float32], shapes=[[3, 3]])
put = queue.enqueue(tf.random.uniform([3, 3]))
session.run(tf.global_variables_initializer())
session.run([noise, put])

x = tf.placeholder(tf.float32, [None, 3])
noisy = tf.matmul(tf.matmul(x, tf.identity(noise)), table)
y = noisy + tf.matmul(x, weights) + tf.reduce_sum(queue.dequeue())
counted = tf.assign_add(count, 1)
for _ in range(3):
    session.run([y, counted, put], {x: np.ones([4, 3])})

known = tf.global_variables()
train = tf.train.AdamOptimizer(0.01).minimize(tf.reduce_mean(y**2))
session.run(tf.variables_initializer([v for v in tf.global_variables() if v not in known]))
words = tf.strings.as_string(tf.argmax(y, axis=1) + 1)
for _ in range(3):
    session.run([train, words, put], {x: np.ones([4, 3])})
session.run(tf.scatter_add(weights, [0], [[1.0, 1.0, 1.0]]))
