"""Mixed precision: a Keras model that computes in half precision, with a scaled loss."""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(31)
tf.keras.mixed_precision.set_global_policy("mixed_float16")


def data(count, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 24)).astype("float32")
    return x, (x[:, :3].sum(axis=1) > 0).astype("float32")


inputs = tf.keras.Input((24,))
hidden = tf.keras.layers.Dense(32, activation="relu", name="first")(inputs)
hidden = tf.keras.layers.Dense(32, activation="relu", name="second")(hidden)
# The probabilities are kept in full precision, as the guide advises.
outputs = tf.keras.layers.Dense(1, activation="sigmoid", dtype="float32", name="out")(hidden)
model = tf.keras.Model(inputs, outputs)
for layer in model.layers[1:]:
    print(layer.name, "computes in", layer.compute_dtype)

model.compile(tf.keras.optimizers.Adam(0.01), "binary_crossentropy", metrics=["accuracy"])
x, y = data(320, seed=1)
model.fit(x, y, batch_size=32, epochs=3, verbose=0)  # op: MatMul

fresh_x, fresh_y = data(64, seed=2)
guess = model.predict(fresh_x, verbose=0)  # op: MatMul
print("predictions:", guess.dtype, guess.shape)
print(f"right: {np.mean((guess[:, 0] > 0.5) == fresh_y):.1f}")

# The same arithmetic by hand, to see what half precision costs.
table = tf.random.stateless_normal((48, 48), (5, 6))
exact = table
rough = tf.cast(table, tf.float16)
for _ in range(10):
    exact = tf.linalg.matmul(exact, table) / 10.0  # op: MatMul
    rough = tf.linalg.matmul(rough, tf.cast(table, tf.float16)) / 10.0  # op: MatMul
difference = tf.reduce_max(tf.abs(exact - tf.cast(rough, tf.float32)))  # op: Max
scale = tf.reduce_max(tf.abs(exact))  # op: Max
print("error below 2 %:", bool(difference / scale < 0.02))
