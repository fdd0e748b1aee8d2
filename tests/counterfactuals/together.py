"""Ops that go where others are: resources, groups, inputs and consumers."""

import tensorflow as tf

from tests.counterfactuals.switches import Switches

# --- Resources ------------------------------------------------------------------------------------


def gather_through_scope(program: Switches) -> None:
    """The scope does not count: the variable's place outweighs it."""
    with tf.device(program.choose("variable", "/CPU:0", "/GPU:0")):
        table = tf.Variable(tf.ones([8, 4]), name="table")

    @tf.function
    def embed(ids: tf.Tensor) -> tf.Tensor:
        with tf.device("/CPU:0"):
            return tf.raw_ops.ResourceGather(
                resource=table.handle, indices=ids, dtype=tf.float32, name=program.target
            )

    embed(tf.constant([1, 2]))


def read_of_int32_variable(program: Switches) -> None:
    total = tf.Variable(tf.ones([2], program.choose("variable", tf.int32, tf.float32)))

    @tf.function
    def doubled() -> tf.Tensor:
        read = tf.raw_ops.ReadVariableOp(
            resource=total.handle, dtype=total.dtype, name=program.target
        )
        return read * 2

    doubled()


def momentum_of_two_variables(program: Switches) -> None:
    with tf.device(program.choose("variable", "/CPU:0", "/GPU:0")):
        weights = tf.Variable(tf.ones([4]))
    with tf.device(program.choose("slot", "/CPU:0", "/GPU:0")):
        velocity = tf.Variable(tf.zeros([4]))

    @tf.function
    def update(gradient: tf.Tensor) -> None:
        tf.raw_ops.ResourceApplyMomentum(
            var=weights.handle,
            accum=velocity.handle,
            lr=0.1,
            grad=gradient,
            momentum=0.9,
            name=program.target,
        )

    update(tf.ones([4]))


def complex_update(program: Switches) -> None:
    dtype = program.choose("cast", tf.complex64, tf.float32)
    with tf.device(program.choose("variable", "/CPU:0", "/GPU:0")):
        spectrum = tf.Variable(tf.ones([4], dtype))

    @tf.function
    def add(row: tf.Tensor) -> None:
        tf.raw_ops.ResourceScatterAdd(
            resource=spectrum.handle, indices=[1], updates=row, name=program.target
        )

    add(tf.ones([1], dtype))


def find_in_a_table(program: Switches) -> None:
    """Without the table neither its op is there nor its place."""
    keys = tf.constant([1, 2], tf.int64)
    if program.has("table"):
        table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(keys, tf.constant([0.5, 0.25])), 0.0
        )
    else:
        rows = tf.Variable([0.0, 0.5, 0.25])

    @tf.function
    def scores(ids: tf.Tensor) -> tf.Tensor:
        if program.has("table"):
            return tf.raw_ops.LookupTableFindV2(
                table_handle=table.resource_handle,
                keys=ids,
                default_value=0.0,
                name=program.target,
            )
        return tf.raw_ops.ResourceGather(
            resource=rows.handle, indices=ids, dtype=tf.float32, name=program.target
        )

    scores(keys)


# --- Colocation -----------------------------------------------------------------------------------


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


# --- Inputs and consumers -------------------------------------------------------------------------


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
