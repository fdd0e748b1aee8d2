#!/usr/bin/env python3
"""A recommender of books, written for a machine with a GPU and run on one without.

Usage: program.py
"""

import numpy as np
import tensorflow as tf

SHELVES = ("art", "cooking", "crime", "history", "poetry", "science", "travel")
BOOKS = 800
READERS = 300
WIDTH = 8
BATCH = 64
STEPS = 12
RATE = 0.05
DESK = 40
EVEN = 0.5


def loans() -> dict[str, np.ndarray]:
    """Return who borrowed which book from which shelf, and whether they read it to the end."""
    rng = np.random.default_rng(5)
    size = BATCH * STEPS
    shelf = rng.integers(len(SHELVES), size=size)
    reader = rng.integers(READERS, size=size)
    return {
        "shelf": np.array(SHELVES)[shelf],
        "book": rng.integers(BOOKS, size=size),
        "reader": reader,
        "finished": ((reader + shelf) % 3 == 0).astype(np.float32),
    }


class Recommender(tf.Module):
    """Says how likely a reader is to finish a book."""

    def __init__(self) -> None:
        """Create the variables; the table of books is kept off the GPU to save its memory."""
        super().__init__(name="recommender")
        start = tf.random.Generator.from_seed(5)
        with tf.device("/CPU:0"):
            self.books = tf.Variable(start.normal([BOOKS, WIDTH]), name="books")
        with tf.device("/GPU:0"):
            self.readers = tf.Variable(start.normal([READERS, WIDTH]), name="readers")
            self.shelves = tf.Variable(start.normal([len(SHELVES), WIDTH]), name="shelves")
            self.mixing = tf.Variable(start.normal([3 * WIDTH, 1]), name="mixing")
            # How often each book was asked for: integers, which TensorFlow keeps off a GPU.
            self.asked = tf.Variable(tf.zeros([BOOKS], tf.int32), name="asked")

    def __call__(self, loan: dict[str, tf.Tensor]) -> tf.Tensor:
        """Return a logit for each loan."""
        with tf.device("/CPU:0"):
            book = tf.nn.embedding_lookup(self.books, loan["book"])
        with tf.device("/GPU:0"):
            reader = tf.nn.embedding_lookup(self.readers, loan["reader"])
            shelf = tf.nn.embedding_lookup(self.shelves, loan["shelf"])
            features = tf.concat([book, reader, shelf], axis=1)
            return tf.squeeze(tf.matmul(features, self.mixing), axis=1)


def novelty(books: tf.Tensor) -> np.float32:
    """Return the share of books that nobody else in the batch borrowed; NumPy counts."""
    counts = np.unique(books.numpy(), return_counts=True)[1]
    return np.float32((counts == 1).mean())


@tf.function
def train_step(model: Recommender, loan: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
    """Take one step of gradient descent and return the logits and how new the books are."""
    with tf.GradientTape() as tape:
        logits = model(loan)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=loan["finished"], logits=logits)
        loss = tf.reduce_mean(losses)
    variables = (model.books, model.readers, model.shelves, model.mixing)
    for gradient, variable in zip(tape.gradient(loss, variables), variables, strict=True):
        # An embedding's gradient is a set of rows, so that the other rows are left alone.
        if isinstance(gradient, tf.IndexedSlices):
            variable.scatter_sub(tf.IndexedSlices(RATE * gradient.values, gradient.indices))
        else:
            variable.assign_sub(RATE * gradient)
    with tf.device("/GPU:0"):
        once = tf.ones_like(loan["book"], tf.int32)
        model.asked.scatter_add(tf.IndexedSlices(once, loan["book"]))
    return logits, tf.py_function(novelty, [loan["book"]], tf.float32)


def quality(logits: tf.Tensor, finished: tf.Tensor) -> tf.Tensor:
    """Return the share of right guesses, each weighed by how sure it was, op by op."""
    likely = tf.sigmoid(logits)
    sure = tf.cast(tf.abs(likely - EVEN), tf.float64)
    right = tf.cast(tf.equal(likely > EVEN, finished > EVEN), tf.float64)
    won = tf.reduce_sum(sure * right)
    played = tf.reduce_sum(sure)
    return won / played


def most_asked(model: Recommender) -> tf.Tensor:
    """Return the books that were asked for most, which belong on the front desk."""
    with tf.device("/CPU:0"):
        return tf.math.top_k(model.asked, DESK).indices


def main() -> None:
    """Train over all loans once, and see after each step what it has come to."""
    model = Recommender()
    numbers = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(
            tf.constant(SHELVES), tf.range(len(SHELVES), dtype=tf.int64)
        ),
        default_value=-1,
    )
    data = tf.data.Dataset.from_tensor_slices(loans()).shuffle(BATCH * STEPS, seed=5).batch(BATCH)
    data = data.map(lambda loan: loan | {"shelf": numbers.lookup(loan["shelf"])})
    for loan in data.prefetch(2):
        logits, _ = train_step(model, loan)
        with tf.device("/GPU:0"):
            quality(logits, loan["finished"])
        most_asked(model)


if __name__ == "__main__":
    main()
