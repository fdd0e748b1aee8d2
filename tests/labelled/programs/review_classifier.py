"""Scores reviews as they come in: text goes into the model, which splits and looks up words."""

from __future__ import annotations

import sys

import keras
import tensorflow as tf

FIXED = set(sys.argv[1:])

keras.utils.set_random_seed(5)
WORDS = ["good", "bad", "film", "plot", "boring", "great", "actor", "slow"]
# cpu: HashTableV2 = no_gpu_kernel!; * = no_gpu_kernel! + resource_on_cpu!
vectorize = keras.layers.TextVectorization(vocabulary=WORDS, output_sequence_length=6)
embedding = tf.Variable(tf.random.normal([len(WORDS) + 2, 8]))
weights = tf.Variable(tf.random.normal([8, 1]))
IN_THE_SERVICE = "texts" not in FIXED


@tf.function
def scored(reviews):
    # cpu: StaticRegexReplace, StringLower = library_cpu_placement(texts) + no_gpu_kernel(texts)
    # cpu: StringSplitV2 = library_cpu_placement(texts) + no_gpu_kernel(texts)
    # cpu: Equal = library_cpu_placement(texts) + dtype_unsupported(texts)
    # cpu: LookupTableFindV2 = no_gpu_kernel(texts) + resource_on_cpu(texts)
    # cpu: RaggedTensorToTensor = no_gpu_kernel(texts)
    # cpu: SelectV2, StridedSlice = library_cpu_placement(texts)
    ids = vectorize(reviews) if IN_THE_SERVICE else tf.abs(reviews)
    known = tf.cast(ids > 1, tf.float32)[..., tf.newaxis]
    rows = tf.nn.embedding_lookup(embedding, ids) * known
    pooled = tf.reduce_sum(rows, axis=1) / tf.maximum(tf.reduce_sum(known, axis=1), 1.0)
    return tf.sigmoid(tf.matmul(pooled, weights))


incoming = ["A great film, great actor!", "Boring plot", "slow. SLOW and bad", "good"]
for _ in range(3):
    batch = tf.constant(incoming) if IN_THE_SERVICE else tf.constant([[7, 4, 7, 8, 0, 0]] * 4)
    print(scored(batch).numpy().ravel().round(3))
