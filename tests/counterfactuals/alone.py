"""Ops without a GPU kernel, ops in scopes, and ops of sessions."""

import tensorflow as tf

from tests.counterfactuals.switches import Switches

# --- No kernel for a GPU, or none for the types ---------------------------------------------------


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


# --- Scopes ---------------------------------------------------------------------------------------


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


# --- Sessions of TensorFlow 1: no function, and no default device ---------------------------------


v1 = tf.compat.v1


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
