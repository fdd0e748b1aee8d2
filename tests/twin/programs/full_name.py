"""A program asks for the CPU by its full name."""

import tensorflow as tf

HOST = "/job:localhost/replica:0/task:0/device:CPU:0"
x = tf.random.normal([8, 8])


@tf.function
def step() -> tf.Tensor:
    with tf.device(HOST):
        y = tf.cumsum(x)
    return tf.linalg.matmul(y, y)


for _ in range(3):
    step()
    with tf.device(HOST):
        tf.linalg.inv(x)
    with tf.device("/job:localhost/replica:0/task:0/device:CPU:0"):
        tf.linalg.det(x)
