#!/usr/bin/env python3
"""Two logical CPU devices stand in for two accelerators, so that tensors cross between devices.

Usage: program.py LOGDIR
"""

import sys

import tensorflow as tf

STEPS = 4


def split_cpu() -> None:
    """Make two devices of the one CPU; this must come before TensorFlow first uses it."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    halves = [tf.config.LogicalDeviceConfiguration(), tf.config.LogicalDeviceConfiguration()]
    tf.config.set_logical_device_configuration(cpu, halves)


@tf.function
def two_stages(signal: tf.Tensor, mixing: tf.Tensor) -> tf.Tensor:
    """Mix the signal on one device, then sort and weigh it on the other."""
    with tf.device("/CPU:0"):
        mixed = tf.matmul(signal, mixing, name="mixed")
    with tf.device("/CPU:1"):
        ordered = tf.sort(mixed, axis=1, name="ordered")
        energy = tf.reduce_sum(ordered * ordered, axis=1, name="energy")
    with tf.device("/CPU:0"):
        return tf.matmul(energy[tf.newaxis, :], mixed, name="weighed")


def step(signal: tf.Tensor, mixing: tf.Tensor) -> None:
    """Run the stages, then an eager op whose inputs TensorFlow copies to its device."""
    weighed = two_stages(signal, mixing)
    with tf.device("/CPU:1"):
        tf.nn.softmax(weighed)


def main(logdir: str) -> None:
    """Profile a few steps after one that traces the function."""
    split_cpu()
    start = tf.random.Generator.from_seed(3)
    with tf.device("/CPU:0"):
        signal, mixing = start.normal([64, 64]), start.normal([64, 64])
    step(signal, mixing)
    tf.profiler.experimental.start(logdir)
    for number in range(STEPS):
        with tf.profiler.experimental.Trace("step", step_num=number, _r=1):
            step(signal, mixing)
    tf.profiler.experimental.stop()


if __name__ == "__main__":
    main(sys.argv[1])
