"""A program that makes a graph of TensorFlow 1, and a session, for each thing that it does."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
config = tf.ConfigProto(allow_soft_placement=True)


def product(a):
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [64, 64])
        y = tf.matmul(x, x)
        with tf.Session(config=config) as s:
            return s.run(y, {x: a})


def on_cpu(a):
    with tf.Graph().as_default(), tf.device("/cpu:0"):
        x = tf.placeholder(tf.float32, [64, 64])
        y = tf.matmul(x, x)
        with tf.Session(config=config) as s:
            return s.run(y, {x: a})


def sizes(n):
    with tf.Graph().as_default():
        y = x = tf.placeholder(tf.float32, [64, 64])
        for _ in range(n):
            y = tf.matmul(y, y)
        y = tf.strings.as_string(y)
        with tf.Session(config=config) as s:
            return s.run(y, {x: a})


a = np.ones([64, 64], np.float32)
for at in range(30):
    product(a)
    on_cpu(a)
    sizes(at)
