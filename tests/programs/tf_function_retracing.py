"""A tf.function that is traced again and again: Python numbers, new shapes, and how to stop it."""

import collections
import logging
import time

import tensorflow as tf

# TensorFlow warns of this very mistake.
logging.getLogger("tensorflow").setLevel(logging.ERROR)
traces = collections.Counter()


@tf.function
def polynomial(x, degree):
    traces["polynomial"] += 1
    result = tf.zeros_like(x)
    for power in range(degree):
        result = result * x + 1.0 / (power + 1)
    return tf.reduce_sum(tf.nn.softplus(result))  # op: Softplus


@tf.function
def any_length(x):
    traces["any_length"] += 1
    ordered = tf.sort(x)  # op: TopKV2
    return tf.cumsum(ordered)[-1]  # op: Cumsum


@tf.function(input_signature=[tf.TensorSpec((None,), tf.float32)])
def fixed(x):
    traces["fixed"] += 1
    spread = tf.math.reduce_std(x)
    return tf.reduce_max(tf.nn.softsign(x)) * spread  # op: Softsign


@tf.function(reduce_retracing=True)
def relaxed(x):
    traces["relaxed"] += 1
    best, _ = tf.math.top_k(x, k=2)  # op: TopKV2
    return tf.reduce_sum(tf.math.erf(best))  # op: Erf


def watch(name, call, arguments):
    started = time.perf_counter()
    total = sum(float(call(*argument)) for argument in arguments)
    elapsed = time.perf_counter() - started
    print(f"{name}: {traces[name]} traces, sum {total:.1f}, {elapsed:.2f} s")


def main():
    x = tf.linspace(0.0, 0.9, 10)
    watch("polynomial", polynomial, [(x, degree) for degree in range(1, 9)])
    lengths = [tf.linspace(-1.0, 1.0, length) for length in range(3, 15)]
    watch("any_length", any_length, [(line,) for line in lengths])
    watch("fixed", fixed, [(line,) for line in lengths])
    watch("relaxed", relaxed, [(line,) for line in lengths])
    concrete = fixed.get_concrete_function()
    print("fixed takes", concrete.structured_input_signature[0][0].shape)


main()
