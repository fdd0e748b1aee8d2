"""A graph is imported, and a function is loaded, with the devices that they were built with."""

import tempfile

import tensorflow as tf

free = tf.Variable(tf.random.normal([8, 8]))


class Model(tf.Module):
    def __init__(self) -> None:
        self.free = free

    @tf.function(input_signature=[tf.TensorSpec([8, 8])])
    def call(self, x: tf.Tensor) -> tf.Tensor:
        with tf.device(free.device):
            y = tf.linalg.inv(tf.matmul(x, free))
        with tf.device("/cpu:0"):
            return y + tf.cumsum(x)


with tf.Graph().as_default() as graph:
    x = tf.compat.v1.placeholder(tf.float32, [8, 8], name="x")
    with tf.device(free.device):
        y = tf.linalg.inv(x)
    with tf.device("/cpu:0"):
        z = tf.linalg.det(x)
    tf.add(y, z, name="out")
definition = graph.as_graph_def()
wrapped = tf.compat.v1.wrap_function(lambda: tf.compat.v1.import_graph_def(definition, name=""), [])
imported = wrapped.prune("x:0", "out:0")

model = Model()
with tempfile.TemporaryDirectory() as folder:
    tf.saved_model.save(model, folder)
    loaded = tf.saved_model.load(folder)
for _ in range(4):
    imported(tf.random.normal([8, 8]))
    model.call(tf.random.normal([8, 8]))
    loaded.call(tf.random.normal([8, 8]))
