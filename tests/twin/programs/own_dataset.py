"""A function builds its own input, and trains on it: what `map` prepares is no work of the step."""

import tensorflow as tf

weights = tf.Variable(tf.random.normal([16, 16]))
images = tf.random.normal([200, 16, 16])


def prepare(image):
    return tf.linalg.matmul(image, image) / 255.0


@tf.function
def epoch():
    total = 0.0
    dataset = tf.data.Dataset.from_tensor_slices(images).map(prepare).batch(10).prefetch(2)
    for batch in dataset:
        product = tf.linalg.matmul(batch, weights)
        weights.assign_add(tf.reduce_mean(product, 0) * 1e-6)
        total += tf.reduce_sum(product)
    return total


for _ in range(3):
    epoch()
