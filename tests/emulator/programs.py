"""Programs that the tests of the emulator run in its forks, where TensorFlow is imported."""

import os
import signal
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf


def devices() -> dict[str, Any]:
    gpus = tf.config.list_physical_devices("GPU")
    return {
        "physical": [gpu.name for gpu in gpus],
        "logical": [gpu.name for gpu in tf.config.list_logical_devices("GPU")],
        "details": [tf.config.experimental.get_device_details(gpu) for gpu in gpus],
    }


def out_of_memory() -> dict[str, Any]:
    with tf.device("/GPU:0"):
        kept = tf.zeros([1 << 20 >> 2])
        before = tf.config.experimental.get_memory_info("GPU:0")
        error = _failing(lambda: tf.zeros([16 << 20 >> 2]))
        refilled = [float(tf.reduce_sum(tf.ones([6 << 20 >> 2]))) for _ in range(10)]
    doubled = tf.function(lambda n: tf.zeros([n]) + 1.0)
    in_graph = _failing(lambda: doubled(tf.constant(16 << 20 >> 2)))
    constant = np.zeros([16 << 20 >> 2], np.float32)
    held = _failing(lambda: tf.function(lambda x: x + tf.constant(constant))(1.0))
    on_cpu = float(_on_cpu(lambda: tf.reduce_sum(tf.ones([9 << 20 >> 2]))))
    del kept
    after = tf.config.experimental.get_memory_info("GPU:0")
    return {
        "before": before,
        "error": (type(error).__name__, str(error)),
        "in_graph": (type(in_graph).__name__, str(in_graph)),
        "held": (type(held).__name__, str(held)),
        "refilled": refilled,
        "on_cpu": on_cpu,
        "after": after,
    }


def computed() -> dict[str, Any]:
    """Results of ops of many kinds, by name: arrays."""
    draw = np.random.default_rng(0)
    matrix = tf.constant(draw.normal(size=(6, 6)), tf.float32)
    image = tf.constant(draw.normal(size=(2, 8, 8, 3)), tf.float32)
    kernel = tf.constant(draw.normal(size=(3, 3, 3, 4)), tf.float32)
    numbers = tf.constant(draw.integers(0, 5, size=12), tf.int32)
    with tf.GradientTape() as tape:
        tape.watch(kernel)
        convolved = tf.nn.conv2d(image, kernel, 1, "SAME")
        loss = tf.reduce_sum(tf.nn.relu(convolved) ** 2)
    unique, places = tf.unique(numbers)

    @tf.function
    def normalized(image: tf.Tensor) -> tf.Tensor:  # fused on a GPU
        scale, mean = tf.constant([1.5, 0.5, 2.0]), tf.constant([0.1, -0.2, 0.0])
        normed = tf.raw_ops.FusedBatchNormV3(
            x=image, scale=scale, offset=mean, mean=mean, variance=scale, is_training=False
        )
        return tf.nn.relu(normed[0])

    results = {
        "conv2d": convolved,
        "normalized": normalized(image),
        "gradient": tape.gradient(loss, kernel),
        "inverse": tf.linalg.inv(matrix),
        "singular": tf.linalg.svd(matrix, compute_uv=False),
        "fft": tf.abs(tf.signal.fft(tf.cast(matrix, tf.complex64))),
        "unique": unique,
        "places": places,
        "where": tf.where(matrix > 0),
        "top": tf.math.top_k(matrix, 2).values,
        "partition": tf.dynamic_partition(tf.range(12), numbers % 2, 2)[1],
        "segments": tf.math.unsorted_segment_sum(tf.range(12.0), numbers, 5),
        "cumulated": tf.cumsum(matrix),
        "checked": tf.debugging.check_numerics(matrix, "no"),
        "strings": tf.strings.as_string(numbers),
        "stateless": tf.random.stateless_normal([4], seed=[1, 2]),
        "einsum": tf.einsum("ij,kj->ik", matrix, matrix),
        "shape": tf.shape(image),
        "ragged": tf.RaggedTensor.from_row_lengths(tf.range(6), [1, 2, 3]).to_tensor(),
    }
    return {name: tensor.numpy() for name, tensor in results.items()}


@tf.function
def looped(steps: tf.Tensor) -> tf.Tensor:
    kept = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
    total = tf.constant(0.0)
    for step in tf.range(steps):
        if step % 2 == 0:
            total += tf.cast(step, tf.float32)
        else:
            total *= 2.0
        kept = kept.write(step, total)
    return kept.stack()


def fitted() -> dict[str, Any]:
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input([8, 8, 1]),
            keras.layers.Conv2D(4, 3, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(3),
        ]
    )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    images = np.random.default_rng(0).normal(size=(32, 8, 8, 1)).astype("float32")
    kinds = np.arange(32) % 3
    losses = model.fit(images, kinds, epochs=2, batch_size=8, verbose=0).history["loss"]
    return {"losses": losses, "predicted": model.predict(images[:2], verbose=0)}


# ------------------------------------------------------------------------- what a program may do


def killed() -> None:
    looped(tf.constant(2))
    os.kill(os.getpid(), signal.SIGSEGV)


# ------------------------------------------------------------------------------ what is placed


@tf.function
def inner(x: tf.Tensor) -> tf.Tensor:
    return tf.matmul(x, x, name="inner_product")


@tf.function
def step(x: tf.Tensor) -> tf.Tensor:
    with tf.device("/CPU:0"):
        x = tf.add(x, 1.0, name="asked")
    x = inner(x)
    text = tf.strings.as_string(x, name="text")
    return tf.strings.length(text, name="length")


def called_in_scopes() -> None:
    x = tf.ones([2, 2])
    step(x)
    for scope in ("/GPU:1", "/CPU:0"):
        with tf.device(scope):
            step(x)


def called_by_dataset() -> None:
    numbers = tf.data.Dataset.from_tensor_slices(tf.ones([3, 2, 2])).map(step)
    assert len(list(numbers)) == 3


def called_in_function() -> None:
    """A call that is not inlined, and one from a branch."""

    @tf.function(experimental_attributes={"_noinline": True})
    def kept_apart(x: tf.Tensor) -> tf.Tensor:
        return tf.sin(x)

    @tf.function
    def around(x: tf.Tensor) -> tf.Tensor:
        with tf.device("/CPU:0"):
            low = kept_apart(x)
        return low + kept_apart(x)

    around(tf.ones([2]))


def run_in_session() -> float:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.ones([2, 2], name="x")
        with tf.device("/CPU:0"):
            y = tf.sin(x, name="y")
        return float(session.run(tf.reduce_sum(y, name="z")))


def refused() -> str:
    tf.config.set_soft_device_placement(False)

    @tf.function
    def impossible(words: tf.Tensor) -> tf.Tensor:
        with tf.device("/GPU:0"):
            return tf.strings.upper(words, name="shout")

    return str(_failing(lambda: impossible(tf.constant(["a"]))))


# ---------------------------------------------------------------------------------- words


def _failing(call: Callable[[], Any]) -> Exception:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - the answer
        return error
    message = "it did not fail"
    raise AssertionError(message)


def _on_cpu(call: Callable[[], tf.Tensor]) -> tf.Tensor:
    with tf.device("/CPU:0"):
        return call()
