"""Keras Sequential convolutional network that tells vertical from horizontal stripes."""

import numpy as np
import tensorflow as tf

SIZE = 12
CLASSES = 3


def stripes(count, rng):
    """Images of vertical stripes, horizontal stripes, and noise."""
    labels = rng.integers(0, CLASSES, count)
    images = rng.normal(0, 0.4, (count, SIZE, SIZE, 1)).astype("float32")
    for image, label in zip(images, labels, strict=True):
        offset = rng.integers(0, 2)
        if label == 0:
            image[:, offset::2] += 1
        elif label == 1:
            image[offset::2] += 1
    return images, labels


def build_model():
    model = tf.keras.Sequential(
        [
            tf.keras.Input((SIZE, SIZE, 1)),
            tf.keras.layers.Conv2D(8, 3, activation="relu"),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Conv2D(12, 3, activation="relu"),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dropout(0.1),
            tf.keras.layers.Dense(CLASSES),
        ]
    )
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.Adam(0.01), loss, metrics=["accuracy"])
    return model


def main():
    tf.keras.utils.set_random_seed(7)
    rng = np.random.default_rng(7)
    images, labels = stripes(320, rng)
    held_out, truth = stripes(64, rng)

    model = build_model()
    print("parameters:", model.count_params())
    history = model.fit(images, labels, epochs=2, verbose=2)  # op: Conv2D, MatMul
    print("epochs:", len(history.history["loss"]))

    _, accuracy = model.evaluate(held_out, truth, verbose=0)  # op: Conv2D, MatMul
    print(f"held out accuracy {accuracy:.2f}")
    scores = model.predict(held_out[:8], verbose=0)  # op: Conv2D, MatMul
    print("first predictions:", np.argmax(scores, axis=1).tolist())


if __name__ == "__main__":
    main()
