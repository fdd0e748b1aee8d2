"""Word embeddings trained with sparse updates: only the rows of a batch are touched."""

import numpy as np
import tensorflow as tf

WORDS = 5000
WIDTH = 12
NEGATIVES = 4
RATE = 0.5


def pairs(count, rng):
    """Pairs of words that stand together: w and its neighbour w + 1."""
    centre = rng.zipf(1.4, count) % (WORDS - 1)
    return centre.astype("int64"), (centre + 1).astype("int64")


class SkipGram(tf.Module):
    """Two tables: of words, and of the contexts that they are seen in."""

    def __init__(self):
        super().__init__()
        initial = tf.random.stateless_uniform((WORDS, WIDTH), (4, 4), -0.1, 0.1)
        self.words = tf.Variable(initial, name="words")
        self.contexts = tf.Variable(tf.zeros((WORDS, WIDTH)), name="contexts")

    @tf.function
    def train(self, centre, context, noise):
        with tf.GradientTape() as tape:
            word = tf.nn.embedding_lookup(self.words, centre)  # op: ResourceGather
            true = tf.nn.embedding_lookup(self.contexts, context)  # op: ResourceGather
            false = tf.nn.embedding_lookup(self.contexts, noise)  # op: ResourceGather
            good = tf.reduce_sum(word * true, axis=1)
            bad = tf.einsum("bw,bnw->bn", word, false)  # op: Einsum
            likely = tf.math.log_sigmoid(good) + tf.reduce_sum(tf.math.log_sigmoid(-bad), 1)
            loss = -tf.reduce_mean(likely)
        slices = tape.gradient(loss, [self.words, self.contexts])  # op: Einsum
        change = tf.IndexedSlices(RATE * slices[0].values, slices[0].indices)
        self.words.scatter_sub(change)  # op: ResourceScatterSub
        change = tf.IndexedSlices(RATE * slices[1].values, slices[1].indices)
        self.contexts.scatter_sub(change)  # op: ResourceScatterSub
        return loss

    @tf.function
    def nearest(self, word, count):
        table = tf.math.l2_normalize(self.words, axis=1)
        row = tf.gather(table, word)
        likeness = tf.linalg.matvec(table, row)
        return tf.math.top_k(likeness, count)  # op: TopKV2


def main():
    rng = np.random.default_rng(23)
    model = SkipGram()
    for step in range(60):
        centre, context = pairs(64, rng)
        noise = rng.integers(0, WORDS, (64, NEGATIVES))
        loss = model.train(centre, context, noise)
        if step % 15 == 0:
            print(f"step {step}: loss {float(loss):.2f}")
    moved = tf.reduce_any(tf.not_equal(model.contexts, 0.0), axis=1)
    print("rows touched:", int(tf.math.count_nonzero(moved)), "of", WORDS)
    print("nearest to itself:", int(model.nearest(3, 5).indices[0]))


if __name__ == "__main__":
    main()
