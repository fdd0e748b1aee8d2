"""Has grappler rewrite a graph, for a machine with a CPU and a GPU, and returns what is left.

The GPU need not be there: grappler is told that it is.
"""

import tensorflow as tf
from tensorflow.core.protobuf import config_pb2, device_properties_pb2
from tensorflow.python.framework import meta_graph
from tensorflow.python.grappler import cluster, tf_optimizer


def device(kind: str) -> device_properties_pb2.NamedDevice:
    """Return a device to tell grappler of."""
    properties = device_properties_pb2.DeviceProperties(type=kind, frequency=1000, num_cores=60)
    if kind == "GPU":
        properties.environment["architecture"] = "7.0"
    name = f"/job:localhost/replica:0/task:0/device:{kind}:0"
    return device_properties_pb2.NamedDevice(name=name, properties=properties)


def rewritten() -> list[str]:
    """Return the op of each node that is left."""
    with tf.Graph().as_default() as graph:
        image = tf.compat.v1.placeholder(tf.float32, [8, 16, 16, 3])
        weights = tf.compat.v1.placeholder(tf.float32, [3, 3, 3, 4])
        with tf.device("/device:GPU:0"):
            convolved = tf.nn.relu(tf.nn.conv2d(image, weights, 1, "SAME"))
        with tf.device("/device:CPU:0"):
            composed = tf.tanh(tf.nn.relu(tf.sqrt(convolved)))
            flat = tf.reshape(weights, [4, 27])
            dense = tf.matmul(tf.reshape(composed, [-1, 4]), flat)
            fused = tf.nn.relu(tf.nn.bias_add(dense, tf.reshape(weights[..., 0], [27])))
            hashed = tf.strings.to_hash_bucket_fast(tf.as_string(tf.cast(composed, tf.int32)), 9)
        for result in (fused, hashed):
            tf.compat.v1.add_to_collection("train_op", tf.identity(result))
    config = config_pb2.ConfigProto()
    config.graph_options.rewrite_options.min_graph_nodes = -1
    left = tf_optimizer.OptimizeGraph(
        config,
        meta_graph.create_meta_graph_def(graph=graph),
        cluster=cluster.Cluster(devices=[device("CPU"), device("GPU")]),
    )
    return [node.op for node in left.node]
