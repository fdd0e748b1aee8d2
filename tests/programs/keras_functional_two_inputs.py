"""Keras functional model with a picture branch and a table branch, two heads."""

import time

import numpy as np
import tensorflow as tf

layers = tf.keras.layers


def make_houses(count, seed):
    """Pictures of a house and facts on it; the price depends on both."""
    rng = np.random.default_rng(seed)
    facts = rng.normal(size=(count, 6)).astype("float32")
    pictures = rng.uniform(size=(count, 8, 8, 3)).astype("float32")
    price = facts @ np.arange(6, dtype="float32") / 6 + pictures.mean(axis=(1, 2, 3))
    sold = (price > np.median(price)).astype("float32")
    return {"facts": facts, "picture": pictures}, {"price": price, "sold": sold}


def build():
    picture = tf.keras.Input((8, 8, 3), name="picture")
    facts = tf.keras.Input((6,), name="facts")
    seen = layers.Conv2D(4, 3, activation="relu")(picture)  # op: StatelessRandomUniformV2
    seen = layers.GlobalAveragePooling2D()(seen)
    known = layers.Dense(16, activation="relu")(facts)  # op: StatelessRandomUniformV2
    both = layers.Concatenate()([seen, known])
    both = layers.Dense(16, activation="relu")(both)  # op: StatelessRandomUniformV2
    price = layers.Dense(1, name="price")(both)  # op: StatelessRandomUniformV2
    judge = layers.Dense(1, activation="sigmoid", name="sold")
    sold = judge(both)  # op: StatelessRandomUniformV2
    return tf.keras.Model(
        {"picture": picture, "facts": facts}, {"price": price, "sold": sold}, name="houses"
    )


tf.keras.utils.set_random_seed(3)
inputs, targets = make_houses(256, seed=3)
model = build()
model.compile(
    optimizer=tf.keras.optimizers.RMSprop(0.005),
    loss={"price": "mse", "sold": "binary_crossentropy"},
    loss_weights={"price": 1.0, "sold": 0.5},
)

dataset = tf.data.Dataset.from_tensor_slices((inputs, targets)).shuffle(256, seed=1).batch(32)
started = time.perf_counter()
history = model.fit(dataset, epochs=4, verbose=0)  # op: Conv2D, MatMul
print(f"fitted in {time.perf_counter() - started:.2f} s")
for epoch, loss in enumerate(history.history["loss"]):
    print(f"epoch {epoch}: loss {loss:.2f}")

fresh, _ = make_houses(5, seed=4)
answer = model(fresh, training=False)  # op: Conv2D, MatMul
print("prices:", [f"{price:.1f}" for price in answer["price"].numpy()[:, 0]])
print("shapes:", answer["price"].shape, answer["sold"].shape)
