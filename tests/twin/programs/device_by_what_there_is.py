"""A program picks its device by whether there is a GPU, and asks for the CPU besides."""

import tensorflow as tf

DEVICE = "/gpu:0" if tf.config.list_physical_devices("GPU") else "/cpu:0"
x = tf.random.normal([8, 8])


@tf.function
def step() -> tf.Tensor:
    with tf.device(DEVICE):
        y = tf.linalg.inv(x)
    with tf.device("/cpu:0"):
        z = tf.cumsum(x)
    return tf.linalg.matmul(y, z)


for _ in range(3):
    step()
    with tf.device(DEVICE):
        tf.linalg.det(x)
    with tf.device("/gpu:0" if tf.test.gpu_device_name() else "/cpu:0"):
        tf.linalg.trace(x)
    with tf.device("/cpu:0"):
        tf.math.erf(x)
