"""A strategy that is given no devices takes the GPUs there are."""

import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    variable = tf.Variable(tf.ones([200, 200]))
data = strategy.experimental_distribute_dataset(
    tf.data.Dataset.from_tensor_slices(tf.ones([8, 200, 200])).batch(4)
)


@tf.function
def step(batch: tf.Tensor) -> tf.Tensor:
    def replica(x: tf.Tensor) -> tf.Tensor:
        variable.assign_add(tf.matmul(variable, variable) * 1e-6)
        return tf.reduce_sum(x)

    return strategy.reduce("SUM", strategy.run(replica, (batch,)), axis=None)


for batch in data:
    step(batch)
strategy.reduce("SUM", strategy.run(lambda: tf.reduce_mean(variable)), axis=None)
