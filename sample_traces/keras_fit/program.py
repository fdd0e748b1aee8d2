#!/usr/bin/env python3
"""A Keras model fitted from a tf.data pipeline, profiled by the TensorBoard callback.

Usage: program.py LOGDIR
"""

import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

PICTURES = 256
BATCH = 32
TAKEN_SIDE = 64
SIDE = 24
CLASSES = 4


def pictures() -> tuple[np.ndarray, np.ndarray]:
    """Return grey pictures with a bright quarter, and which quarter it is."""
    rng = np.random.default_rng(5)
    shades = rng.integers(0, 128, size=(PICTURES, TAKEN_SIDE, TAKEN_SIDE, 1), dtype=np.uint8)
    quarters = rng.integers(CLASSES, size=PICTURES)
    half = TAKEN_SIDE // 2
    for picture, quarter in zip(shades, quarters, strict=True):
        top, left = divmod(int(quarter), 2)
        picture[top * half : (top + 1) * half, left * half : (left + 1) * half] += 96
    return shades, quarters


def shrink(picture: tf.Tensor, quarter: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Bring a picture to the size that the model takes, and its shades between 0 and 1."""
    # The default looks at a few pixels only; the area method averages all of them.
    return tf.image.resize(picture, (SIDE, SIDE), method="area") / 255.0, quarter


def dataset() -> tf.data.Dataset:
    """Return the input pipeline."""
    return (
        tf.data.Dataset.from_tensor_slices(pictures())
        .shuffle(PICTURES, seed=5)
        .map(shrink, num_parallel_calls=2)
        .batch(BATCH)
        .prefetch(2)
    )


def classifier() -> keras.Model:
    """Return a convolution and a dense layer, compiled."""
    model = keras.Sequential(
        [
            keras.Input((SIDE, SIDE, 1)),
            keras.layers.Conv2D(8, 3, strides=2, activation="relu", name="edges"),
            keras.layers.Flatten(name="flatten"),
            keras.layers.Dense(CLASSES, name="quarter"),
        ],
        name="quarters",
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    return model


def write_graph(model: keras.Model, logdir: str) -> None:
    """Write the graph of the model for TensorBoard, which Keras 3 itself no longer does."""
    picture = tf.TensorSpec((None, SIDE, SIDE, 1), tf.float32)
    graph = tf.function(model).get_concrete_function(picture).graph
    with tf.summary.create_file_writer(str(Path(logdir, "train"))).as_default():
        tf.summary.graph(graph)


def main(logdir: str) -> None:
    """Fit one epoch of eight batches, of which the callback profiles the second to the sixth."""
    keras.utils.set_random_seed(5)
    model = classifier()
    write_graph(model, logdir)
    board = keras.callbacks.TensorBoard(logdir, profile_batch=(2, 6))
    # The pipeline shuffles already; left at its default, Keras warns that it will not.
    model.fit(dataset(), epochs=1, shuffle=False, callbacks=[board], verbose=0)


if __name__ == "__main__":
    main(sys.argv[1])
