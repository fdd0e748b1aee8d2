"""A graph of TensorFlow 1 that is built again, elsewhere, after the first was thrown away."""

import tempfile
from pathlib import Path

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
SIZE = 48
config = tf.ConfigProto(allow_soft_placement=True)


def build():
    x = tf.placeholder(tf.float32, [32, SIZE], name="x")
    weights = tf.get_variable("weights", [SIZE, SIZE])
    out = tf.get_variable("out", [SIZE, 4])
    hidden = tf.nn.relu(tf.matmul(x, weights))
    loss = tf.reduce_mean(tf.square(tf.matmul(hidden, out)))
    tf.summary.scalar("loss", loss)
    return x, loss, tf.summary.merge_all()


with tempfile.TemporaryDirectory() as folder:
    path = str(Path(folder, "model"))
    with tf.device("/cpu:0"):
        x, loss, summary = build()
    step = tf.train.AdamOptimizer(0.01).minimize(loss)
    saver = tf.train.Saver()
    with tf.Session(config=config) as session:
        writer = tf.summary.FileWriter(folder)
        session.run(tf.global_variables_initializer())
        for at in range(5):
            _, text = session.run([step, summary], {x: np.ones([32, SIZE])})
            writer.add_summary(text, at)
        saver.save(session, path)
        writer.close()

    tf.reset_default_graph()
    x, loss, summary = build()
    with tf.device("/cpu:0"):
        words = tf.strings.as_string(loss)
    saver = tf.train.Saver(tf.trainable_variables())
    with tf.Session(config=config) as session:
        saver.restore(session, path)
        for _ in range(5):
            session.run([loss, summary, words], {x: np.ones([32, SIZE])})
