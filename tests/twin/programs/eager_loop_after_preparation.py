"""Data is prepared element by element; then ten equal iterations train without a tf.function."""

import tensorflow as tf

elements = tf.data.Dataset.range(2_000).map(lambda x: tf.cast(x % 7, tf.float32) / 7.0).batch(200)
batches = [tf.reshape(batch, (50, 4)) for batch in elements]
model = tf.keras.Sequential(
    [
        tf.keras.Input((4,)),
        tf.keras.layers.Dense(8, activation="relu"),
        tf.keras.layers.Dense(1),
    ]
)
optimizer = tf.keras.optimizers.SGD(0.01)
for batch in batches:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(batch) - 1.0))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
