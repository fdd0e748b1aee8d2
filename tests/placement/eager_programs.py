"""Eager ops on what cannot be given as an input: tables, iterators, datasets, functions.

Each program makes what it needs on the CPU, and runs the op in question last, in the scope that it
is called in. Run where TensorFlow is.
"""

from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context


def given(**tensors: Any) -> Any:  # noqa: ANN401 - TensorFlow's
    """Return what is given, to see where that is."""
    return tensors


def scopes(asked: list[str]) -> list[str]:
    """Return what TensorFlow makes of each scope: what it holds while that is open."""
    found = []
    for scope in asked:
        with tf.device(scope or None):
            found.append(context.context().device_name or "")
    return found


def _table() -> Any:  # noqa: ANN401 - TensorFlow's
    with tf.device("/CPU:0"):
        keys = tf.constant(["a"])
        values = tf.constant([1], tf.int64)
        initializer = tf.lookup.KeyValueTensorInitializer(keys, values)
        table = tf.lookup.StaticHashTable(initializer, -1)
        return table, keys, tf.constant(-1, tf.int64)


def find() -> Any:  # noqa: ANN401 - TensorFlow's
    """Look a key up."""
    table, keys, default = _table()
    return tf.raw_ops.LookupTableFindV2(
        table_handle=table.resource_handle, keys=keys, default_value=default
    )


def table_size() -> Any:  # noqa: ANN401 - TensorFlow's
    """Ask a table for its size."""
    table, _, _ = _table()
    return tf.raw_ops.LookupTableSizeV2(table_handle=table.resource_handle)


def next_element() -> Any:  # noqa: ANN401 - TensorFlow's
    """Take an element of a dataset."""
    with tf.device("/CPU:0"):
        iterator = iter(tf.data.Dataset.range(3))
    return tf.raw_ops.IteratorGetNext(
        iterator=iterator._iterator_resource,  # noqa: SLF001 - no other way
        output_types=[tf.int64],
        output_shapes=[[]],
    )


def take() -> Any:  # noqa: ANN401 - TensorFlow's
    """Take three elements of a dataset."""
    with tf.device("/CPU:0"):
        dataset = tf.data.Dataset.range(9)._variant_tensor  # noqa: SLF001 - no other way
        count = tf.constant(3, tf.int64)
    return tf.raw_ops.TakeDataset(
        input_dataset=dataset, count=count, output_types=[tf.int64], output_shapes=[[]]
    )


def push() -> Any:  # noqa: ANN401 - TensorFlow's
    """Append to a list of tensors that is on the CPU."""
    with tf.device("/CPU:0"):
        tensors = tf.raw_ops.EmptyTensorList(
            element_shape=[2], max_num_elements=3, element_dtype=tf.float32
        )
        tensor = tf.ones([2])
    return tf.raw_ops.TensorListPushBack(input_handle=tensors, tensor=tensor)


def uniform() -> Any:  # noqa: ANN401 - TensorFlow's
    """Draw from a generator whose state is on the CPU."""
    with tf.device("/CPU:0"):
        state = tf.Variable([1, 2, 3], dtype=tf.int64)
        algorithm, shape = tf.constant(1, tf.int64), tf.constant([2])
    return tf.raw_ops.StatefulUniform(resource=state.handle, algorithm=algorithm, shape=shape)


def call(asked: list[str], soft_placement: bool) -> list[str]:  # noqa: FBT001 - by position
    """Call a function of its own, `called0` and so on, in each scope; return the errors."""
    tensor = tf.ones([2])
    tf.config.set_soft_device_placement(soft_placement)
    errors = []
    for number, scope in enumerate(asked):

        def called(given: Any) -> Any:  # noqa: ANN401 - TensorFlow's
            return given * 2.0

        called.__name__ = f"called{number}"
        try:
            with tf.device(scope or None):
                tf.function(called, autograph=False)(tensor)
            errors.append("")
        except Exception as raised:  # noqa: BLE001 - an answer
            errors.append(f"{type(raised).__name__}: {raised}")
    return errors
