"""A metric in NumPy called from a graph; ends with a message when the model is not good enough."""

import sys

import numpy as np
import tensorflow as tf

THRESHOLD = 0.999


def area_under_curve(scores, truth):
    """The chance that a positive is ranked before a negative."""
    order = np.argsort(scores, kind="stable")
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    positive = truth > 0.5
    count = positive.sum()
    area = ranks[positive].sum() - count * (count + 1) / 2
    return np.float32(area / (count * (len(scores) - count)))


@tf.function
def evaluate(weights, x, truth):
    scores = tf.linalg.matvec(x, weights)  # op: MatMul
    area = tf.numpy_function(area_under_curve, [scores, truth], tf.float32)  # op: PyFunc
    entropy = tf.nn.sigmoid_cross_entropy_with_logits(truth, scores)
    return tf.reduce_mean(entropy), area


@tf.function
def improve(weights, x, truth):
    with tf.GradientTape() as tape:
        scores = tf.linalg.matvec(x, weights)  # op: MatMul
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(truth, scores))
    weights.assign_sub(0.5 * tape.gradient(loss, weights))  # op: AssignSubVariableOp, MatMul


def make(count):
    rng = np.random.default_rng(81)
    x = rng.normal(size=(count, 12)).astype("float32")
    chance = 1 / (1 + np.exp(-2 * x[:, 0] + x[:, 1]))
    return tf.constant(x), tf.constant((rng.uniform(size=count) < chance).astype("float32"))


x, truth = make(400)
weights = tf.Variable(tf.zeros(12))
area = 0.0
for step in range(40):
    improve(weights, x, truth)
    if step % 10 == 9:
        loss, area = evaluate(weights, x, truth)
        print(f"step {step}: loss {float(loss):.2f}, area under the curve {float(area):.2f}")
if area < THRESHOLD:
    sys.exit(f"not good enough to release: {float(area):.2f} < {THRESHOLD}")
print("released")
