"""A function that a dataset maps asks for the GPU: it gets it, and so does what it reads."""

import tensorflow as tf

weights = tf.Variable(tf.random.normal([64, 64]))


def on_gpu(x):
    with tf.device("/gpu:0"):
        y = tf.matmul(x, x)
    return tf.tanh(tf.matmul(y, x))


images = tf.data.Dataset.from_tensor_slices(tf.random.normal([20, 64, 64]))
for x in images.map(on_gpu):
    tf.linalg.inv(x)
for x in images.map(lambda image: tf.linalg.matmul(weights, image)):
    tf.linalg.det(x)
