"""A program asks for the device of its variables; one of them is on the CPU by its own words."""

import tensorflow as tf
from tensorflow.python.framework import ops

weights = tf.Variable(tf.ones([4, 4]))
with tf.device("/CPU:0"):
    table = tf.Variable(tf.ones([4, 4]))


class Dense(tf.Module):
    kernel = None
    bias = None

    @tf.function
    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        if self.kernel is None:
            self.kernel = tf.Variable(tf.random.normal([4, 4]))
            with tf.device(table.device):
                self.bias = tf.Variable(tf.zeros([4]))
        return tf.matmul(x, self.kernel) + self.bias


@tf.function
def step(x: tf.Tensor) -> tf.Tensor:
    with ops.colocate_with(weights.handle):
        a = tf.math.sign(x)
    with ops.colocate_with(table.handle):
        b = tf.math.erf(x)
    with tf.device(weights.device):
        c = tf.cumsum(a)
        with ops.colocate_with(c):
            d = tf.math.lgamma(c)
    with tf.device(c.device):
        e = tf.math.digamma(d)
    with tf.device(table.device):
        f = tf.cumsum(b)
    return tf.matmul(e, f)


x = tf.random.normal([4, 4])
dense = Dense()
for _ in range(3):
    step(dense(x))
    with tf.device(weights.device):
        tf.linalg.inv(x)
    with tf.device(x.device):
        tf.linalg.det(x)
    with tf.device(table.device):
        tf.linalg.trace(x)
