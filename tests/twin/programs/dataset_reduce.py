"""A metric searches a dataset of candidates: what tf.data computes for a step, it does on CPUs."""

import tensorflow as tf

encoder = tf.Variable(tf.random.normal([32, 32]))
candidates = tf.data.Dataset.from_tensor_slices(tf.random.normal([1000, 32])).batch(50)


@tf.function
def top(queries):
    queries = tf.matmul(queries, encoder)

    def scores(batch):
        return tf.math.top_k(tf.matmul(queries, tf.matmul(batch, encoder), transpose_b=True), k=10)

    def best(state, found):
        values = tf.concat([state[0], found[0]], axis=1)
        indices = tf.concat([state[1], found[1]], axis=1)
        values, order = tf.math.top_k(values, k=10)
        return values, tf.gather(indices, order, batch_dims=1)

    start = (tf.fill([20, 10], -1e9), tf.zeros([20, 10], tf.int32))
    return candidates.map(scores).reduce(start, best)[0]


for _ in range(3):
    top(tf.random.normal([20, 32]))
print(candidates.reduce(0.0, lambda total, batch: total + tf.reduce_sum(tf.matmul(batch, encoder))))
