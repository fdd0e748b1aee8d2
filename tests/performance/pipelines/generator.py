"""A generator in Python gives the elements, one after the other."""

import os

import tensorflow as tf
from paced import arguments, read_slowly, train

args = arguments()
elements = 4 * args.steps
row = tf.TensorSpec([8], tf.float32)


def rows():
    for number in range(elements):
        yield read_slowly(number)


def rows_of_part(part, parts):
    for number in range(part, elements, parts):
        yield read_slowly(number)


if args.fixed:
    parts = os.cpu_count()
    dataset = tf.data.Dataset.range(parts).interleave(
        lambda part: tf.data.Dataset.from_generator(
            rows_of_part, args=(part, parts), output_signature=row
        ),
        cycle_length=parts,
        num_parallel_calls=parts,
    )
else:
    dataset = tf.data.Dataset.from_generator(rows, output_signature=row)
train(dataset.batch(4).prefetch(tf.data.AUTOTUNE))
