"""One table is on the CPU by the program's words: what an optimizer makes for it is there, too."""

import keras
import tensorflow as tf

with tf.device("/CPU:0"):
    table = tf.Variable(tf.random.normal([100, 8]), name="table")
weights = tf.Variable(tf.random.normal([8, 4]), name="weights")
ids = tf.constant([1, 5, 7])


def train(optimizer: keras.optimizers.Optimizer) -> None:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.matmul(tf.gather(table, ids), weights) ** 2)
    variables = [table, weights]
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))


eager, compiled = keras.optimizers.Adam(), keras.optimizers.Adam()
step = tf.function(lambda: train(compiled))
for _ in range(3):
    train(eager)
    step()

averages = tf.train.ExponentialMovingAverage(0.9)
averages.apply([table, weights])
