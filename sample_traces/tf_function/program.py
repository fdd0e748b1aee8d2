#!/usr/bin/env python3
"""A training loop of one's own: a tf.function with a pinned embedding and a numpy callback.

Usage: program.py LOGDIR
"""

import sys

import numpy as np
import tensorflow as tf

WORDS = 2000
LENGTH = 12
WIDTH = 16
BATCH = 64
STEPS = 4
RATE = 0.1


def ranking_quality(labels: np.ndarray, scores: np.ndarray) -> np.float32:
    """Return the area under the ROC curve by ranks; NumPy sorts, TensorFlow waits."""
    positives = labels > 0
    ranks = scores.argsort().argsort() + 1
    wins = ranks[positives].sum() - positives.sum() * (positives.sum() + 1) / 2
    return np.float32(wins / max(1, positives.sum() * (~positives).sum()))


class Classifier(tf.Module):
    """Says whether a sentence is a complaint, from the mean of its word vectors."""

    def __init__(self) -> None:
        """Create the variables; the table of words is kept off the GPU to save its memory."""
        super().__init__(name="classifier")
        start = tf.random.Generator.from_seed(11)
        with tf.device("/CPU:0"):
            self.words = tf.Variable(start.normal([WORDS, WIDTH]), name="words")
        self.weights = tf.Variable(start.normal([WIDTH, 1]), name="weights")
        self.bias = tf.Variable([0.0], name="bias")

    def __call__(self, sentences: tf.Tensor) -> tf.Tensor:
        """Return a logit for each sentence."""
        with tf.device("/CPU:0"):
            vectors = tf.nn.embedding_lookup(self.words, sentences)
            meaning = tf.reduce_mean(vectors, axis=1)
        return tf.squeeze(tf.matmul(meaning, self.weights) + self.bias, axis=1)


@tf.function
def train_step(
    model: Classifier, sentences: tf.Tensor, labels: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Take one step of gradient descent and return the loss and the quality of the ranking."""
    with tf.GradientTape() as tape:
        logits = model(sentences)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
        loss = tf.reduce_mean(losses)
    variables = model.trainable_variables
    for gradient, variable in zip(tape.gradient(loss, variables), variables, strict=True):
        # An embedding's gradient is a set of rows, so that the other rows are left alone.
        if isinstance(gradient, tf.IndexedSlices):
            variable.scatter_sub(tf.IndexedSlices(RATE * gradient.values, gradient.indices))
        else:
            variable.assign_sub(RATE * gradient)
    quality = tf.numpy_function(ranking_quality, [labels, logits], tf.float32)
    return loss, quality


def main(logdir: str) -> None:
    """Train a few steps, profiling all but the first, which traces the function."""
    rng = np.random.default_rng(11)
    sentences = rng.integers(WORDS, size=(STEPS + 1, BATCH, LENGTH))
    labels = (sentences.min(axis=2) < WORDS // 20).astype(np.float32)
    model = Classifier()
    train_step(model, tf.constant(sentences[0]), tf.constant(labels[0]))
    tf.profiler.experimental.start(logdir)
    for step in range(1, STEPS + 1):
        with tf.profiler.experimental.Trace("train", step_num=step, _r=1):
            train_step(model, tf.constant(sentences[step]), tf.constant(labels[step]))
    tf.profiler.experimental.stop()


if __name__ == "__main__":
    main(sys.argv[1])
