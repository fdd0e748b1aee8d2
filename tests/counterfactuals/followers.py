"""Nodes that go where their input or their consumers are."""

from __future__ import annotations

import tensorflow as tf

from tests.counterfactuals.switches import Switches  # noqa: TC001 - which TensorFlow looks at


def constant_of_int32_matmul_in_scope(program: Switches) -> None:
    dtype = program.choose("cast", tf.int32, tf.float32)
    counts = tf.ones([2, 2], dtype)

    @tf.function
    def step(counts: tf.Tensor) -> tf.Tensor:
        kernel = tf.constant([[1, 0], [0, 1]], dtype, name=program.target)
        with tf.device(program.choose("scope", "/CPU:0", None)):
            return tf.matmul(counts, kernel, name="follow")

    with tf.device(program.choose("caller", "/CPU:0", "/GPU:0")):
        step(counts)


def identity_of_a_variable(program: Switches) -> None:
    with tf.device(program.choose("variable", "/CPU:0", "/GPU:0")):
        weights = tf.Variable(tf.ones([4]))

    @tf.function
    def read() -> tf.Tensor:
        value = tf.raw_ops.ReadVariableOp(resource=weights.handle, dtype=tf.float32)
        return tf.tanh(tf.identity(value, name=program.target))

    read()


def shape_of_shuffled_in_caller(program: Switches) -> None:
    @tf.function
    def rows(table: tf.Tensor) -> tf.Tensor:
        if program.has("op"):
            table = tf.random.shuffle(table, name="follow")
        else:
            table = tf.reverse(table, [0], name="follow")
        return tf.raw_ops.Shape(input=table, name=program.target)[0], table

    with tf.device(program.choose("caller", "/CPU:0", "/GPU:0")):
        rows(tf.ones([4, 2]))


def identity_of_an_identity_in_caller(program: Switches) -> None:
    @tf.function
    def spectrum(matrix: tf.Tensor) -> tf.Tensor:
        eigenvalues = tf.linalg.eigvals if program.has("op") else tf.linalg.eigvalsh
        between = tf.identity(eigenvalues(matrix, name="follow"))
        return tf.abs(tf.identity(between, name=program.target))

    with tf.device(program.choose("caller", "/CPU:0", "/GPU:0")):
        spectrum(tf.eye(3))


def identity_between_scopes(program: Switches) -> None:
    """It follows its input only where both its neighbours are asked for alike: the scope holds it.

    That the input has no kernel for a GPU does not.
    """

    @tf.function
    def spectrum(matrix: tf.Tensor) -> tf.Tensor:
        with tf.device(program.choose("scope", "/CPU:0", None)):
            eigenvalues = tf.linalg.eigvals(matrix, name="follow")
        between = tf.identity(eigenvalues, name=program.target)
        with tf.device("/CPU:0"):
            return tf.abs(between)

    spectrum(tf.eye(3))
