"""Two graphs of TensorFlow 1 with nodes of the same names, in two sessions that take turns."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
SIZE = 48


def model(batch):
    x = tf.placeholder(tf.float32, [None, SIZE], name="x")
    weights = tf.get_variable("weights", [SIZE, SIZE])
    counter = tf.get_variable("counter", [], tf.float32, tf.zeros_initializer())
    y = tf.tanh(tf.matmul(x, weights, name="hidden"))
    order = tf.random.shuffle(tf.range(batch), name="order")
    y = tf.gather(y, order)
    return x, tf.reduce_mean(y, name="mean"), tf.assign_add(counter, 1.0, name="count")


train_graph, eval_graph = tf.Graph(), tf.Graph()
config = tf.ConfigProto(allow_soft_placement=True)
with train_graph.as_default():
    x, mean, count = model(32)
    train_init = tf.global_variables_initializer()
with eval_graph.as_default(), tf.device("/cpu:0"):
    eval_x, eval_mean, eval_count = model(32)
    eval_init = tf.global_variables_initializer()
train = tf.Session(graph=train_graph, config=config)
evaluate = tf.Session(graph=eval_graph, config=config)
train.run(train_init)
evaluate.run(eval_init)
for _ in range(6):
    train.run([mean, count], {x: np.ones([32, SIZE])})
    evaluate.run([eval_mean, eval_count], {eval_x: np.ones([32, SIZE])})
