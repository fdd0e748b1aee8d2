"""Questions that users asked in public about layers of Keras."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

# tensorflow/tensorflow#117882: which part of a model with a StringLookup cannot be on the GPU?
words = keras.Input((), dtype="string")
# cpu: HashTableV2 = no_gpu_kernel!; * = no_gpu_kernel! + resource_on_cpu!
numbers = keras.layers.StringLookup(vocabulary=["apple", "banana"])(words)
lookup = keras.Model(words, keras.layers.Dense(4)(keras.layers.Embedding(4, 8)(numbers)))


@tf.function
def scores(batch):
    return lookup(batch)  # cpu: * = no_gpu_kernel! + resource_on_cpu!


scores(tf.constant(["apple", "pear"]))
scores(tf.constant(["apple", "pear"]))

# tensorflow/tensorflow#38236: why is an LSTM with recurrent_dropout slow on a GPU?
recurrent = keras.Sequential([keras.layers.LSTM(8, recurrent_dropout=0.1), keras.layers.Dense(1)])
recurrent.compile("sgd", "mse")
recurrent.fit(np.zeros([8, 5, 3], "float32"), np.zeros([8, 1], "float32"), verbose=0)
