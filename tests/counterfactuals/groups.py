"""Ops that must be where other ops are."""

from __future__ import annotations

import tensorflow as tf

from tests.counterfactuals.switches import Switches  # noqa: TC001 - which TensorFlow looks at


def int32_matmul_beside_text_called_in_scope(program: Switches) -> None:
    counts = tf.ones([4, 4], program.choose("cast", tf.int32, tf.float32))

    @tf.function
    def step(counts: tf.Tensor, words: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        upper = tf.strings.upper(words, name="upper")
        with program.beside("colocation", upper):
            return tf.matmul(counts, counts, name=program.target), upper

    with tf.device(program.choose("caller", "/CPU:0", "/GPU:0")):
        step(counts, tf.constant(["a"]))


def beside_an_op_in_scope(program: Switches) -> None:
    """To colocate copies the other op's request."""

    @tf.function
    def step(inputs: tf.Tensor) -> tf.Tensor:
        with tf.device(program.choose("scope", "/CPU:0", None)):
            anchor = tf.tanh(inputs, name="anchor")
        with tf.compat.v1.colocate_with(anchor):
            return tf.square(inputs, name=program.target) + anchor

    step(tf.ones([4]))


def beside_a_shuffle_in_scope(program: Switches) -> None:
    @tf.function
    def step(inputs: tf.Tensor) -> tf.Tensor:
        if program.has("op"):
            anchor = tf.random.shuffle(inputs, name="anchor")
        else:
            anchor = tf.reverse(inputs, [0], name="anchor")
        with (
            tf.compat.v1.colocate_with(anchor),
            tf.device(program.choose("scope", "/CPU:0", None)),
        ):
            square = tf.square(inputs, name=program.target)
        return square + anchor

    step(tf.ones([4]))


def beside_two_texts_in_scope(program: Switches) -> None:
    @tf.function
    def step(inputs: tf.Tensor, words: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        upper = tf.strings.upper(words, name="upper")
        lower = tf.strings.lower(words, name="lower")
        with (
            program.beside("upper", upper),
            program.beside("lower", lower),
            tf.device(program.choose("scope", "/CPU:0", None)),
        ):
            return tf.matmul(inputs, inputs, name=program.target), upper, lower

    step(tf.ones([4, 4]), tf.constant(["a"]))
