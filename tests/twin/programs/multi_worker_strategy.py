"""A strategy for several workers, with one of them, takes the GPUs there are."""

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    variable = tf.Variable(tf.ones([200, 200]))


@tf.function
def step() -> tf.Tensor:
    return strategy.run(lambda: variable.assign_add(tf.matmul(variable, variable) * 1e-6))


for _ in range(3):
    step()
