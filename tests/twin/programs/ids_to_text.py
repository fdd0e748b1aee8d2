"""Lookups and string ops on both sides of a model: words to ids before it, ids to words after."""

import tensorflow as tf

words = tf.constant(["a", "cat", "sat", "here"])
ids = tf.lookup.StaticHashTable(
    tf.lookup.KeyValueTensorInitializer(words, tf.range(4, dtype=tf.int64)), default_value=-1
)
texts = tf.lookup.StaticHashTable(
    tf.lookup.KeyValueTensorInitializer(tf.range(4, dtype=tf.int64), words), default_value="?"
)
embedding = tf.Variable(tf.random.normal([4, 8]))
dense = tf.Variable(tf.random.normal([8, 4]))


@tf.function
def next_words(line):
    found = ids.lookup(tf.strings.split(line).to_tensor("a"))
    logits = tf.matmul(tf.gather(embedding, found), dense)
    return tf.strings.upper(texts.lookup(tf.argmax(logits, axis=-1)))


for line in tf.data.Dataset.from_tensor_slices(["a cat", "sat here"] * 5).batch(2):
    next_words(line)
    logits = tf.matmul(tf.ones([3, 8]), dense)
    tf.strings.lower(texts.lookup(tf.argmax(logits, axis=-1)))
