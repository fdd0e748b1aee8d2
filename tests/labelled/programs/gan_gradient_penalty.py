"""A critic's step of a Wasserstein GAN, with its gradient penalty computed on the host."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])

tf.random.set_seed(7)
generator = tf.Variable(tf.random.normal([8, 16], stddev=0.2))
hidden = tf.Variable(tf.random.normal([16, 32], stddev=0.2))
judge = tf.Variable(tf.random.normal([32, 1], stddev=0.2))
HOST = "/device:GPU:0" if "explicit_cpu_placement" in FIXED else "/device:CPU:0"


def criticised(samples):
    return tf.matmul(tf.nn.leaky_relu(tf.matmul(samples, hidden)), judge)


@tf.function
def critic_step(real):
    with tf.device("/GPU:0"):
        noise = tf.random.normal([tf.shape(real)[0], 8])
        fake = tf.tanh(tf.matmul(noise, generator))
        share = tf.random.uniform([tf.shape(real)[0], 1])
        mixed = share * real + (1.0 - share) * fake
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                inner.watch(mixed)
                opinion = criticised(mixed)
            slope = inner.gradient(opinion, mixed)
            with tf.device(HOST):
                length = tf.sqrt(tf.reduce_sum(slope**2, axis=1))  # cpu: * = explicit_cpu_placement
                penalty = tf.reduce_mean((length - 1.0) ** 2)  # cpu: * = explicit_cpu_placement
            distance = tf.reduce_mean(criticised(fake)) - tf.reduce_mean(criticised(real))
            loss = distance + 10.0 * penalty
        for weights, gradient in zip([hidden, judge], outer.gradient(loss, [hidden, judge])):
            weights.assign_sub(0.01 * gradient)
    return loss


for _ in range(3):
    batch = tf.random.normal([16, 16])
    print(f"{float(critic_step(batch)):.4f}")
