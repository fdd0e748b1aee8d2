"""What the programs of this folder share: a step that takes its time, and slow reading.

Both sleep instead of computing: a step as one on a GPU leaves the CPUs free, and what else the
machine does changes the times little.
"""

import argparse
import json
import statistics
import time

import numpy as np
import tensorflow as tf

STEP = 0.025  # seconds that a step takes beside its input
READ = 0.010  # seconds that reading an element takes


def read_slowly(number):
    """As from a disk or a network."""
    time.sleep(READ)
    return np.full([8], number, np.float32)


@tf.function
def train_step(batch):
    return tf.reduce_sum(tf.square(batch))


def train(dataset):
    """A step a batch; prints the median time from one step to the next, of the last half."""
    begun = []
    for batch in dataset:
        train_step(batch)
        time.sleep(STEP)
        begun.append(time.perf_counter())
    lasted = np.diff(begun)
    print(json.dumps({"step_ms": 1000 * statistics.median(lasted[len(lasted) // 2 :])}))


def arguments():
    """How many steps, and whether with the fix."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--steps", type=int, default=100)
    return parser.parse_args()
