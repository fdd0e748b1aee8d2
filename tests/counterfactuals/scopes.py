"""Ops with kernels for a GPU that a scope keeps from it."""

from __future__ import annotations

import tensorflow as tf

from tests.counterfactuals.switches import Switches  # noqa: TC001 - which TensorFlow looks at


def scope_that_comes_twice(program: Switches) -> None:
    @tf.function
    def activation(inputs: tf.Tensor) -> tf.Tensor:
        with tf.device(program.choose("scope", "cpu:0", None)):
            return tf.sigmoid(inputs, name=program.target)

    with tf.device(program.choose("caller", "/CPU:0", "/GPU:0")):
        activation(tf.ones([4]))


def gradient_in_scope(program: Switches) -> None:
    weights = tf.Variable(tf.ones([4, 4]))

    @tf.function
    def step(inputs: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.matmul(inputs, weights))
        with tf.device(program.choose("scope", "/CPU:0", None)):
            gradient = tape.gradient(loss, weights)
            return tf.clip_by_norm(gradient, 1.0) + tf.square(gradient, name=program.target)

    with tf.device(program.choose("caller", "/CPU:0", "/GPU:0")):
        step(tf.ones([2, 4]))


def body_of_a_pipeline(program: Switches) -> None:
    """What a dataset calls has the CPU as its default device."""
    if program.has("pipeline"):
        rows = tf.data.Dataset.range(4).map(
            lambda row: tf.tanh(tf.cast(row, tf.float32), name=program.target)
        )
        for _ in rows:
            pass
        return

    @tf.function
    def activation(row: tf.Tensor) -> tf.Tensor:
        return tf.tanh(tf.cast(row, tf.float32), name=program.target)

    for row in tf.data.Dataset.range(4):
        activation(row)


def optional_in_callers_scope(program: Switches) -> None:
    """The CPU's kernel has the higher priority, which does not count: a default device does."""

    @tf.function
    def wrapped(value: tf.Tensor) -> tf.Tensor:
        optional = tf.raw_ops.OptionalFromValue(components=[value], name=program.target)
        return tf.raw_ops.OptionalHasValue(optional=optional)

    with tf.device(program.choose("caller", "/CPU:0", "/GPU:0")):
        wrapped(tf.ones([2]))
