"""Ops that have no kernel for a GPU, or none for their types, and are held otherwise too."""

from __future__ import annotations

import tensorflow as tf

from tests.counterfactuals.switches import Switches  # noqa: TC001 - which TensorFlow looks at


def int32_matmul_in_scope_called_in_scope(program: Switches) -> None:
    counts = tf.ones([4, 4], program.choose("cast", tf.int32, tf.float32))

    @tf.function
    def transitions(counts: tf.Tensor) -> tf.Tensor:
        with tf.device(program.choose("scope", "/CPU:0", None)):
            return tf.matmul(counts, counts, name=program.target)

    with tf.device(program.choose("caller", "/CPU:0", "/GPU:0")):
        transitions(counts)


def shuffle_in_scope_called_in_scope(program: Switches) -> None:
    rows = tf.ones([4, 4])

    @tf.function
    def shuffled(rows: tf.Tensor) -> tf.Tensor:
        with tf.device(program.choose("scope", "/device:CPU:0", None)):
            if program.has("op"):
                rows = tf.random.shuffle(rows, name=program.target)
            else:
                rows = tf.reverse(rows, [0], name=program.target)
        return rows * 2.0

    with tf.device(program.choose("caller", "/CPU:0", "/GPU:0")):
        shuffled(rows)


def loop_of_int32_matmul_in_scope(program: Switches) -> None:
    step = tf.ones([2, 2], program.choose("cast", tf.int32, tf.float32))

    @tf.function
    def power(step: tf.Tensor) -> tf.Tensor:
        reached = step
        for _ in tf.range(3):
            with tf.device(program.choose("scope", "/CPU:0", None)):
                reached = tf.matmul(reached, step, name=program.target)
        return reached

    power(step)


def branch_with_int64_mean_in_scope(program: Switches) -> None:
    lengths = tf.ones([8], program.choose("cast", tf.int64, tf.float32))

    @tf.function
    def average(lengths: tf.Tensor, *, is_training: tf.Tensor) -> tf.Tensor:
        if is_training:
            with tf.device(program.choose("scope", "/CPU:0", None)):
                return tf.reduce_mean(lengths, name=program.target)
        return lengths[0]

    average(lengths, is_training=tf.constant(value=True))


def bicubic_resize_of_a_called_function(program: Switches) -> None:
    images = tf.ones([1, 4, 4, 3])

    @tf.function
    def resized(images: tf.Tensor) -> tf.Tensor:
        resize = tf.raw_ops.ResizeBicubic if program.has("op") else tf.raw_ops.ResizeBilinear
        return resize(images=images, size=[8, 8], name=program.target)

    @tf.function
    def step(images: tf.Tensor) -> tf.Tensor:
        with tf.device(program.choose("scope", "/CPU:0", None)):
            return tf.reduce_sum(resized(images))

    step(images)


def length_of_a_list_of_strings_called_in_scope(program: Switches) -> None:
    """The op has a kernel for a GPU, but strings are always in host memory."""
    words = tf.constant(program.choose("cast", ["a", "b"], [0.5, 0.25]))

    @tf.function
    def count(words: tf.Tensor) -> tf.Tensor:
        tensors = tf.raw_ops.TensorListFromTensor(
            tensor=words, element_shape=tf.constant([], tf.int32)
        )
        return tf.raw_ops.TensorListLength(input_handle=tensors, name=program.target)

    with tf.device(program.choose("caller", "/CPU:0", "/GPU:0")):
        count(words)


def pushed_string_in_scope(program: Switches) -> None:
    word = tf.constant(program.choose("cast", "a", 0.5))

    @tf.function
    def collect(word: tf.Tensor) -> tf.Tensor:
        tensors = tf.raw_ops.EmptyTensorList(
            element_shape=tf.constant([], tf.int32), max_num_elements=3, element_dtype=word.dtype
        )
        with tf.device(program.choose("scope", "/CPU:0", None)):
            tensors = tf.raw_ops.TensorListPushBack(
                input_handle=tensors, tensor=word, name=program.target
            )
        return tf.raw_ops.TensorListStack(
            input_handle=tensors, element_shape=tf.constant([], tf.int32), element_dtype=word.dtype
        )

    collect(word)
