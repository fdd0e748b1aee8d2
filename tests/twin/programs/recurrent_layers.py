"""Recurrent layers of Keras, with the tape outside the function that calls them."""

import keras
import tensorflow as tf

layers = keras.layers
notes = keras.Input([7], dtype="int32")
x = layers.Embedding(12, 8)(notes)
x = layers.GRU(8, return_sequences=True, use_cudnn=False)(x)
x = layers.Bidirectional(layers.LSTM(5, return_sequences=True, use_cudnn=False))(x)
x = layers.SimpleRNN(4)(x)
model = keras.Model(notes, layers.Dense(1)(x))
forward = tf.function(lambda melodies: model(melodies, training=True))
optimizer = keras.optimizers.SGD(0.01)
for _ in range(3):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(forward(tf.random.uniform([4, 7], maxval=12, dtype=tf.int32)) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
