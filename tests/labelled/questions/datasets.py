"""Questions that users asked in public about tf.data and devices."""

from __future__ import annotations

import tensorflow as tf

signals = tf.data.Dataset.from_tensor_slices(tf.random.stateless_normal([6, 64], [1, 2]))


# tensorflow/tensorflow#40755: why is an FFT in map slower than the same FFT in a loop?
def spectrum(x):
    return tf.abs(tf.signal.rfft(x))  # cpu: * = host_pipeline!


for row in signals.map(spectrum):
    tf.sqrt(row)


# tensorflow/tensorflow#13610: a network in map asks for the GPU: does it get it?
def on_the_gpu(x):
    with tf.device("/gpu:0"):
        return tf.tanh(tf.linalg.matvec(tf.eye(64), x))


for row in signals.map(on_the_gpu):
    tf.sqrt(row)


# tensorflow/tensorflow#32138: does a loop over a dataset in a function run on the GPU?
total = tf.Variable(tf.zeros([64]))


@tf.function
def accumulate():
    for x in signals:
        total.assign_add(tf.tanh(x))


accumulate()
accumulate()
