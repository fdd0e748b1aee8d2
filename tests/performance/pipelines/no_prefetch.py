"""Each step makes its own input, for tf.data is told to tune nothing."""

import numpy as np
import tensorflow as tf
from paced import arguments, read_slowly, train

args = arguments()


def read_batch_slowly(numbers):
    return np.stack([read_slowly(number) for number in numbers])


def read(numbers):
    rows = tf.numpy_function(read_batch_slowly, [numbers], tf.float32)
    return tf.ensure_shape(rows, [None, 8])


dataset = tf.data.Dataset.range(2 * args.steps).batch(2).map(read)
options = tf.data.Options()
options.autotune.enabled = False
dataset = dataset.with_options(options)
if args.fixed:
    dataset = dataset.prefetch(2)
train(dataset)
