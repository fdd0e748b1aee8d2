"""An agent asks its model for one prediction a turn; each makes three datasets of the same kind."""

import numpy as np
import tensorflow as tf

model = tf.keras.Sequential(
    [
        tf.keras.Input((4,)),
        tf.keras.layers.Dense(8, activation="relu"),
        tf.keras.layers.Dense(2),
    ]
)
state = np.zeros((1, 4), np.float32)
for _ in range(30):
    action = int(np.argmax(model.predict(state, verbose=0)[0]))
    state[0, action] += 0.1
