"""A backward function gets the variables of its loop from the forward function, as handles."""

import tensorflow as tf

weights = tf.Variable(tf.eye(6) * 0.9)
bias = tf.Variable(tf.zeros([6]))
with tf.device("/cpu:0"):
    table = tf.Variable(tf.ones([5, 6]))
order = tf.constant([3, 1, 4, 0])
steps = tf.constant(3)


@tf.function
def powers(x):
    for _ in tf.range(steps):
        x = tf.matmul(x, weights) + bias
    return x


@tf.function
def each_row(x):
    return tf.map_fn(lambda row: tf.tanh(row) * bias + row, x)


@tf.function
def running(x):
    return tf.scan(lambda state, row: tf.linalg.matvec(weights, state) + row, x, tf.zeros([6]))


@tf.function
def nested(x):
    for i in tf.range(4):
        row = tf.gather(table, order[i])
        for _ in tf.range(2):
            x = tf.matmul(x, weights) * row
    return x


@tf.function
def until_small(x):
    while tf.reduce_max(x) > 0.5:
        x = tf.nn.softmax(tf.matmul(x, weights) - 1.0) * 0.6
    return x


for loop in (powers, each_row, running, nested, until_small):
    for _ in range(2):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(loop(tf.random.normal([4, 6])) ** 2)
        variables = [weights, bias, table]
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            if gradient is not None:
                variable.assign_sub(tf.convert_to_tensor(gradient) * 1e-3)
