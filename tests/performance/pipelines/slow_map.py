"""A function that takes long is mapped over the elements, one after the other."""

import tensorflow as tf
from paced import arguments, read_slowly, train

args = arguments()


def read(number):
    row = tf.numpy_function(read_slowly, [number], tf.float32)
    return tf.ensure_shape(row, [8])


dataset = tf.data.Dataset.range(4 * args.steps)
if args.fixed:
    dataset = dataset.map(read, num_parallel_calls=tf.data.AUTOTUNE)
else:
    dataset = dataset.map(read)
train(dataset.batch(4).prefetch(tf.data.AUTOTUNE))
