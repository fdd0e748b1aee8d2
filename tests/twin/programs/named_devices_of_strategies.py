"""Strategies run on the devices that the program names, and keep variables where it says."""

import tensorflow as tf


def run(strategy: tf.distribute.Strategy) -> None:
    with strategy.scope():
        variable = tf.Variable(tf.ones([20, 20]))

    @tf.function
    def step() -> tf.Tensor:
        def replica() -> tf.Tensor:
            variable.assign_add(tf.matmul(variable, variable) * 1e-6)
            return tf.reduce_sum(variable)

        return strategy.reduce("SUM", strategy.run(replica), axis=None)

    for _ in range(3):
        step()


def on_the_host() -> None:
    run(tf.distribute.OneDeviceStrategy("/cpu:0"))


def on_the_gpu() -> None:
    run(tf.distribute.OneDeviceStrategy("/gpu:0"))


on_the_host()
on_the_gpu()
run(tf.distribute.MirroredStrategy(["/cpu:0"]))
run(tf.distribute.experimental.CentralStorageStrategy(parameter_device="/cpu:0"))
