"""Questions that users asked in public about variables, tables, and the ops that use them."""

from __future__ import annotations

import keras
import tensorflow as tf

# tensorflow/tensorflow#59803: why can an int32 variable not be on the GPU?
counter = tf.Variable([1, 2, 3])  # cpu: VarHandleOp = dtype_unsupported!; * = resource_on_cpu!
counter.assign_add([1, 1, 1])  # cpu: * = resource_on_cpu!

# tensorflow/tensorflow#44194: is the Embedding layer of Keras kept on the CPU?
embed = keras.layers.Embedding(100, 8)


@tf.function
def embedded(ids):
    return tf.reduce_sum(embed(ids))


embedded(tf.constant([[1, 2, 3]]))
embedded(tf.constant([[4, 2, 3]]))

# tensorflow/tensorflow#11709: why do the ops of embedding_lookup_sparse run on the CPU?
weights = tf.Variable(tf.random.stateless_normal([50, 4], [1, 2]))
ids = tf.sparse.from_dense(tf.constant([[1, 2], [3, 0]], tf.int64))


@tf.function
def pooled():
    return tf.nn.embedding_lookup_sparse(weights, ids, None, combiner="mean")


pooled()
pooled()

# tensorflow/tensorflow#58153: can a hash table be on the GPU?
initializer = tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([1, 2], tf.int64))
# cpu: HashTableV2 = no_gpu_kernel!; * = no_gpu_kernel! + resource_on_cpu!
table = tf.lookup.StaticHashTable(initializer, -1)
table.lookup(tf.constant(["a", "z"]))  # cpu: * = no_gpu_kernel! + resource_on_cpu!
