"""The program that `test_recorded.py` has recorded: each line that is asked for bears a mark.

`# at: NAME` at the end of a line names it. Functions of a library are in `library.py`, which the
test writes into a folder named site-packages.
"""

from __future__ import annotations

import threading
from contextlib import suppress

import library
import numpy as np
import tensorflow as tf
from tensorflow.python.framework import ops

matrix = tf.constant(np.ones((2, 2), np.float32))


def attributes() -> None:
    tf.matmul(matrix, matrix, transpose_b=True)  # at: matmul
    tf.cast(matrix, tf.int32)  # at: cast
    tf.split(matrix, 2, axis=0)  # at: split
    tf.strings.join(["a", "b"], separator="-")  # at: join


def inputs() -> None:
    tf.stack([variable] * 10)  # at: stack
    tf.add(variable, variable)  # at: add_variables
    tf.maximum(matrix, library.Lazy(variable))  # at: maximum
    tf.stack([variable, library.Lazy(variable), 1.0 * matrix])  # at: stack_lazy
    tf.minimum(variable, library.Lazy(variable))  # at: minimum
    values()
    for _ in range(2500):
        tf.negative(matrix)  # at: negative


def values() -> None:
    """What is made tensors in C++, of which type Python does not see."""
    double, ints = np.ones((2, 2)), np.ones(3, np.int64)
    raw = tf.raw_ops
    raw.Sum(input=double, axis=np.int64([0]))  # at: sum_values
    raw.Pack(values=[double, ints.sum() * matrix])  # at: pack_values
    raw.IdentityN(input=[double, ints, matrix])  # at: identities
    raw.Where(condition=double)  # at: where_values
    raw.Tanh(x=[0.5, 1.5])  # at: tanh_list
    raw.ZerosLike(x=np.array([b"a"], object))  # at: zeros_like_objects
    tf.py_function(lambda a, b: a + float(b), [double, 3], tf.float64)  # at: py_function_values


def errors() -> None:
    with suppress(tf.errors.InvalidArgumentError):
        tf.matmul(matrix, tf.ones([3, 3]))  # at: wrong_shapes
    with suppress(TypeError, ValueError):
        tf.add(matrix, object())


def too_large() -> None:
    try:
        allocate()  # at: allocating
    except (KeyError, tf.errors.ResourceExhaustedError):  # at: exhausted_handler
        print("too large")  # noqa: T201


def allocate() -> tf.Tensor:
    words = "OOM when allocating tensor with shape[4194304,4194304]"
    raise tf.errors.ResourceExhaustedError(None, None, words)  # at: exhausted


def scopes() -> None:
    with tf.device("CPU:0"):  # at: outer_scope
        tf.exp(matrix)  # at: exp_outer
        with tf.device("/device:cpu:0"):  # at: inner_scope
            tf.exp(matrix)  # at: exp_inner
        tf.exp(matrix)  # at: exp_again
        with tf.device(""):
            tf.exp(matrix)  # at: exp_no_request
        with tf.device(None):  # at: lifting_scope
            tf.exp(matrix)  # at: exp_lifted
    library.on_cpu(matrix)  # at: exp_library_call
    with library.cpu():
        tf.exp(matrix)  # at: exp_helper
    tf.exp(matrix)  # at: exp_bare
    with tf.device(""):  # at: completed_scope
        tf.exp(matrix)  # at: exp_completed


table = tf.lookup.StaticHashTable(  # at: table
    tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2]), -1
)
variable = tf.Variable(matrix, name="kernel")  # at: variable
counter = tf.Variable(0, dtype=tf.int64, name="counter")  # at: counter

of_library = library.counter()  # at: library_counter


HOST = "/job:localhost/replica:0/task:0/device:CPU:0"


def scopes_of_others() -> None:
    with tf.device("CPU:0"):
        tf.exp(matrix)  # at: of_spelt
    with tf.device(variable.device):
        tf.exp(matrix)  # at: of_variable
    with ops.colocate_with(variable):
        tf.exp(matrix)  # at: of_beside_variable
    with tf.device(matrix.device):
        tf.exp(matrix)  # at: of_tensor
    with tf.device(tf.abs(matrix).device):
        tf.exp(matrix)  # at: of_result
    with tf.device(HOST):
        tf.exp(matrix)  # at: of_spelt_in_full


@tf.function
def in_scopes_of_others(x: tf.Tensor) -> tf.Tensor:
    with tf.name_scope("variable"), tf.device(variable.device):
        y = tf.exp(x)
    with tf.name_scope("again"), tf.device(y.device):
        x += tf.exp(y)
    with tf.name_scope("beside"), ops.colocate_with(variable.handle):
        x += tf.exp(x)
    with tf.name_scope("short"), tf.device("CPU:0"):
        return tf.exp(x)


def helper(x: tf.Tensor) -> tf.Tensor:
    with tf.device("CPU:0"):  # at: graph_helper_scope
        return tf.tanh(x)  # at: graph_tanh


made: list[tf.Variable] = []


@tf.function
def step(x: tf.Tensor, keys: tf.Tensor) -> tf.Tensor:
    if not made:
        with tf.init_scope():
            made.append(tf.Variable(3.0, name="late"))  # at: init_scope
    with tf.device("/CPU:0"):  # at: graph_scope
        y = tf.matmul(x, variable)  # at: graph_matmul
        with tf.device("CPU:0"):  # at: graph_inner_scope
            y = helper(y)  # at: graph_calls_helper
    if tf.reduce_sum(y) > 100.0:  # at: graph_condition
        y = tf.sqrt(y)  # at: graph_branch
    while tf.reduce_sum(y) < 10.0:  # at: graph_while
        y = y + 1.0  # at: graph_body
    counter.assign_add(1)  # at: graph_assign
    library.on_cpu(x)  # at: graph_library
    return y + tf.cast(table.lookup(keys), tf.float32)  # at: graph_lookup


lifted: list[tf.Variable] = []


@tf.function
def makes_its_variable(x: tf.Tensor) -> tf.Tensor:
    if not lifted:
        with tf.device("CPU:0"), tf.init_scope():  # at: lifted_scope
            lifted.append(tf.Variable(2.0, name="lifted"))  # at: lifted
    return x * lifted[0]


@tf.function
def with_python(x: tf.Tensor) -> tf.Tensor:
    return tf.py_function(in_python, [x], tf.float32)  # at: py_function


def in_python(x: tf.Tensor) -> tf.Tensor:
    return tf.math.sigmoid(x)  # at: in_python


def calls() -> None:
    keys = tf.constant(["a", "c"])
    for _ in range(3):
        step(matrix, keys)  # at: call
    step(matrix, keys)  # at: other_call
    with_python(matrix)  # at: call_python
    makes_its_variable(matrix)


def data() -> None:
    numbers = tf.data.Dataset.range(4).map(lambda n: n * 2)  # at: mapped
    for number in numbers:  # at: iterated
        tf.square(number)  # at: square


def worker() -> None:
    for _ in range(5):
        tf.cosh(matrix)  # at: cosh


def session() -> None:
    graph = tf.Graph()
    with graph.as_default(), tf.device("CPU:0"):  # at: v1_scope
        x = tf.compat.v1.placeholder(tf.float32, [2])
        y = tf.sinh(x, name="y")  # at: v1_sinh
    with tf.compat.v1.Session(graph=graph) as running:
        print(running.run(y, {x: [0.0, 0.0]}).tolist())  # noqa: T201


attributes()
inputs()
errors()
scopes()
scopes_of_others()
in_scopes_of_others(matrix)
calls()
data()
threads = [threading.Thread(target=worker, name=f"worker-{k}") for k in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
session()
too_large()  # at: running_out
tf.distribute.OneDeviceStrategy("CPU:0")
