"""The programs of `claims.toml`, one a function. With an argument, runs only that one."""

import sys
from threading import Thread

import keras
import numpy as np
import tensorflow as tf


def float64_matmul() -> None:
    """Multiply in float64."""
    x = tf.ones((8, 8), tf.float64)
    tf.matmul(x, x)


def too_little_memory() -> None:
    """Ask for twice the GPU's memory."""
    try:
        tf.fill((1 << 22, 1 << 10), 1.0)
    except tf.errors.ResourceExhaustedError:
        return
    raise AssertionError


def small_work_on_host_data() -> None:
    """Add numbers that are on the host; copying them takes longer than adding them."""
    tf.add(np.ones(2, np.float32), np.ones(2, np.float32))


def four_threads_at_once() -> None:
    """Keep the GPU busy from four threads."""
    x = tf.ones((64, 64))
    threads = [Thread(target=lambda: [tf.matmul(x, x) for _ in range(20)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def outside_of_scopes() -> None:
    """Call an op outside of any `tf.device`."""
    tf.tanh(tf.ones(8))


def small_integers() -> None:
    """Subtract small eager int64 tensors."""
    tf.subtract(tf.constant([1, 2], tf.int64), tf.constant([3, 4], tf.int64))


def gpu_scope() -> None:
    """Request the GPU."""
    with tf.device("/GPU:0"):
        tf.square(tf.ones(8))


def unique_values() -> None:
    """Find unique values and count them."""
    x = tf.constant([1, 2, 2], tf.int64)
    tf.unique(x)
    tf.image.non_max_suppression(tf.ones((2, 4)), tf.ones(2), 1)


def int32_matmul() -> None:
    """Multiply in int32."""
    x = np.ones((8, 8), np.int32)
    tf.matmul(x, x)


def strings_on_gpu() -> None:
    """Request the GPU for an op that only the CPU has."""
    with tf.device("/GPU:0"):
        tf.strings.upper("text")


def int32_constant() -> None:
    """Multiply int32 constants, which TensorFlow keeps in the host's memory."""
    with tf.device("/GPU:0"):
        tf.multiply(tf.constant([1, 2]), tf.constant([3, 4]))


def cpu_scope() -> None:
    """Forget a scope around the work."""
    with tf.device("/CPU:0"):
        tf.sigmoid(np.ones(8, np.float32))


def data_map() -> None:
    """Compute in the input pipeline."""
    list(tf.data.Dataset.range(4).map(lambda n: tf.sqrt(tf.cast(n, tf.float32))))


def keras_embedding() -> None:
    """Train a Keras model with an embedding."""
    layers = [keras.layers.Embedding(50, 8), keras.layers.Flatten(), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    model.compile("sgd", "mse", jit_compile=False)
    model.fit(np.ones((8, 4), np.int32), np.ones((8, 1)), batch_size=4, verbose=0)


def python_function() -> None:
    """Call Python within a function."""

    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        return tf.py_function(lambda value: value + 1, [x], tf.float32)

    step(tf.ones(8))


def sampled_loss() -> None:
    """Compute a noise-contrastive loss: which part of it is not on the GPU?"""
    weights, biases = tf.Variable(tf.ones((100, 8))), tf.Variable(tf.zeros(100))

    @tf.function
    def loss() -> tf.Tensor:
        labels = tf.ones((4, 1), tf.int64)
        return tf.nn.nce_loss(weights, biases, labels, tf.ones((4, 8)), 5, 100)

    loss()


PROGRAMS = (
    *(float64_matmul, too_little_memory, small_work_on_host_data, four_threads_at_once),
    *(gpu_scope, outside_of_scopes, small_integers, unique_values),
    *(int32_matmul, strings_on_gpu, int32_constant, cpu_scope, data_map),
    *(keras_embedding, python_function, sampled_loss),
)

if __name__ == "__main__":
    for program in PROGRAMS:
        if program.__name__ in (sys.argv[1:] or program.__name__):
            program()
