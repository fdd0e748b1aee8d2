"""An input pipeline calls layers of a model: tf.data computes them, on the CPU."""

import keras
import tensorflow as tf

noise = tf.random.Generator.from_seed(3)
encoder = keras.Sequential(
    [
        keras.Input([12, 12, 3]),
        keras.layers.Conv2D(4, 3, activation="relu"),
        keras.layers.BatchNormalization(),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(5),
    ]
)
weights = tf.Variable(tf.random.normal([5, 2]))


def prepare(i):
    image = tf.random.stateless_uniform([12, 12, 3], [i, 7])
    return tf.image.adjust_contrast(image, 1.5) + noise.normal([12, 12, 3], stddev=0.01)


images = tf.data.Dataset.range(24).map(lambda i: prepare(tf.cast(i, tf.int32))).batch(4)


@tf.function
def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.matmul(x, weights) ** 2)
    weights.assign_sub(1e-3 * tape.gradient(loss, weights))
    return loss


for codes in images.map(encoder).prefetch(2):
    step(codes)
for batch in images.take(2):
    step(encoder(batch, training=False))  # as it should be
