"""Graphs of TensorFlow 1, run by a session: no function, and no default device."""

from __future__ import annotations

import tensorflow as tf

from tests.counterfactuals.switches import Switches  # noqa: TC001 - which TensorFlow looks at

v1 = tf.compat.v1


def int32_matmul_in_scope(program: Switches) -> None:
    with tf.Graph().as_default(), v1.Session(config=_soft()) as session:
        counts = v1.placeholder(program.choose("cast", tf.int32, tf.float32), [2, 2])
        with tf.device(program.choose("scope", "/CPU:0", None)):
            product = tf.matmul(counts, counts, name=program.target)
        session.run(product, {counts: [[1, 2], [3, 4]]})


def read_of_a_variable_in_scope(program: Switches) -> None:
    with tf.Graph().as_default(), v1.Session(config=_soft()) as session:
        with tf.device(program.choose("variable", "/CPU:0", None)):
            weights = v1.get_variable("weights", [2, 2], use_resource=True)
        value = tf.raw_ops.ReadVariableOp(
            resource=weights.handle, dtype=tf.float32, name=program.target
        )
        session.run(weights.initializer)
        session.run(tf.square(value))


def optional_of_a_value_in_scope(program: Switches) -> None:
    with tf.Graph().as_default(), v1.Session(config=_soft()) as session:
        value = tf.ones([2])
        with tf.device(program.choose("scope", "/CPU:0", None)):
            if program.has("op"):
                optional = tf.raw_ops.OptionalFromValue(components=[value], name=program.target)
            else:
                value = tf.square(value, name=program.target)
        if program.has("op"):
            value = tf.raw_ops.OptionalHasValue(optional=optional)
        session.run(value)


def uses_of_a_variable_in_scopes(program: Switches) -> None:
    """What is asked of one use of a variable holds for it, and so for all other uses."""
    with tf.Graph().as_default(), v1.Session(config=_soft()) as session:
        with tf.device(program.choose("variable", "/CPU:0", None)):
            handle = tf.raw_ops.VarHandleOp(
                dtype=tf.float32, shape=[2], shared_name=program.target, name="handle"
            )
        with tf.device(program.choose("assignment", "/CPU:0", None)):
            assign = tf.raw_ops.AssignVariableOp(
                resource=handle, value=tf.ones([2], name="value"), name="assign"
            )
        with tf.device(program.choose("scope", "/CPU:0", None)), tf.control_dependencies([assign]):
            value = tf.raw_ops.ReadVariableOp(
                resource=handle, dtype=tf.float32, name=program.target
            )
        session.run(tf.square(value))


def _soft() -> v1.ConfigProto:
    return v1.ConfigProto(allow_soft_placement=True)
