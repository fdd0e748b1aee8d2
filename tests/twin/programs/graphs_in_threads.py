"""Graphs of TensorFlow 1 in sessions of two threads, run by callables, too."""

import threading

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf.config_pb2 import CallableOptions

tf.disable_v2_behavior()
SIZE = 48
config = tf.ConfigProto(allow_soft_placement=True)


def build(device):
    graph = tf.Graph()
    with graph.as_default(), tf.device(device):
        x = tf.constant(np.ones([16, SIZE], np.float32), name="x")
        weights = tf.get_variable("weights", [SIZE, SIZE], use_resource=True)
        y = tf.matmul(x, weights, name="y")
        flags = tf.strings.as_string(tf.argmax(y, axis=1), name="flags")
        grown = tf.assign(weights, weights * 0.5, name="grown")
        return graph, tf.global_variables_initializer(), y, flags, grown


has_run = threading.Event()


def work(device, begin=None):
    graph, init, y, flags, grown = build(device)
    if begin is not None:
        begin.wait()
    with tf.Session(graph=graph, config=config) as session:
        session.run(init)
        has_run.set()
        step = session.make_callable([y, flags])
        shrink = session.make_callable(grown.op)
        from_options = session._make_callable_from_options  # noqa: SLF001 - as Keras does
        call = from_options(CallableOptions(fetch=[y.name]))
        for _ in range(5):
            step()
            shrink()
            call()
            session.run(flags)
        with graph.as_default():
            more = tf.reduce_sum(y, name="more")
        for _ in range(5):
            session.run(more)


threads = [
    threading.Thread(target=work, args=("/cpu:0",)),
    threading.Thread(target=work, args=(None, has_run)),
]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
work(None)
