"""Ragged tensors: sessions of different lengths, pooled and classified."""

import numpy as np
import tensorflow as tf

PAGES = 40
WIDTH = 6


def sessions(count, seed):
    """Visits of pages by each visitor; those who see a page above 30 buy."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 9, count)
    visits = tf.RaggedTensor.from_row_lengths(rng.integers(0, PAGES, lengths.sum()), lengths)
    bought = tf.cast(tf.reduce_max(visits, axis=1) > 30, tf.float32)
    return visits, bought


class Pooled(tf.Module):
    """The mean embedding of the pages of a session, through one layer."""

    def __init__(self):
        super().__init__()
        self.table = tf.Variable(tf.random.stateless_normal((PAGES, WIDTH), (8, 1)))
        self.weights = tf.Variable(tf.random.stateless_normal((WIDTH, 1), (8, 2)))

    def __call__(self, visits):
        pages = tf.gather(self.table, visits.values)  # op: ResourceGather
        pooled = tf.math.segment_mean(pages, visits.value_rowids())  # op: SegmentMean
        return tf.squeeze(tf.matmul(pooled, self.weights), axis=1)  # op: MatMul


@tf.function
def train(model, visits, bought):
    with tf.GradientTape() as tape:
        logits = model(visits)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(bought, logits)
        loss = tf.reduce_mean(losses)
    weights = [model.table, model.weights]
    by_table, by_weights = tape.gradient(loss, weights)  # op: MatMul
    model.table.assign_sub(tf.convert_to_tensor(by_table) * 3.0)  # op: UnsortedSegmentSum
    model.weights.assign_sub(by_weights * 0.3)
    return loss


def main():
    visits, bought = sessions(256, seed=8)
    print("visits:", visits.shape, "longest:", int(visits.bounding_shape()[1]))
    model = Pooled()
    data = tf.data.Dataset.from_tensor_slices((visits, bought)).ragged_batch(32)
    for epoch in range(4):
        total = 0.0
        for batch, truth in data:
            total += float(train(model, batch, truth))
        print(f"epoch {epoch}: loss {total / 8:.2f}")

    padded = visits[:3].to_tensor(default_value=-1)  # op: RaggedTensorToTensor
    print("padded:", padded.shape)
    unique = tf.map_fn(
        lambda row: tf.size(tf.unique(row).y), visits[:5], fn_output_signature="int32"
    )
    print("different pages:", unique.numpy().tolist())
    longest_first = tf.argsort(visits.row_lengths(), direction="DESCENDING", stable=True)
    print("longest sessions:", longest_first.numpy()[:4].tolist())


main()
