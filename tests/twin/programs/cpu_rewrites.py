"""Optimizers rewrite the graph for a CPU, and compute constants once, while they do."""

import tensorflow as tf

kernel = tf.Variable(tf.random.normal([3, 3, 8, 8]))
bias = tf.Variable(tf.zeros([8]))
scale = tf.Variable(tf.ones([8]))
dense = tf.Variable(tf.random.normal([8, 5]))


@tf.function
def train_step(images):
    steps = tf.range(tf.shape(images)[1] // 2)
    positions = tf.cast(steps[::2] % 5, tf.float32)
    with tf.GradientTape() as tape:
        x = tf.nn.conv2d(images, kernel, 1, "SAME")
        x = tf.nn.leaky_relu(tf.nn.bias_add(x, bias))
        x, _, _ = tf.compat.v1.nn.fused_batch_norm(x, scale, bias)
        x = tf.reduce_mean(tf.nn.relu(x), axis=[1, 2])
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        x = (x - mean) * tf.math.rsqrt(variance + 1e-3) * scale + bias
        x = tf.nn.gelu(tf.nn.bias_add(tf.matmul(x, dense), bias[:5]))
        loss = tf.reduce_mean(x * tf.sigmoid(x)) + tf.reduce_sum(positions) * 1e-9 / 2.0
    variables = [kernel, bias, scale, dense]
    for variable, gradient in zip(variables, tape.gradient(loss, variables)):
        variable.assign_sub(0.1 * gradient)
    return tf.tanh(tf.nn.relu(loss + 1.0 + 2.0))


for _ in range(5):
    train_step(tf.random.normal([4, 16, 16, 8]))
