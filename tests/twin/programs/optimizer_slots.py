"""An optimizer of Keras makes its variables on the device of the model's variables."""

import keras
import tensorflow as tf

model = keras.Sequential([keras.layers.Dense(4)])
optimizer = keras.optimizers.Adam()
x = tf.random.normal([8, 3])
for _ in range(5):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(x) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
