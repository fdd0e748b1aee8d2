"""MirroredStrategy over two logical CPUs, with a custom distributed training loop."""

import numpy as np
import tensorflow as tf

GLOBAL_BATCH = 32


def two_cpus():
    (cpu,) = tf.config.list_physical_devices("CPU")
    half = tf.config.LogicalDeviceConfiguration()
    tf.config.set_logical_device_configuration(cpu, [half, half])
    return tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])


def make_dataset():
    rng = np.random.default_rng(61)
    x = rng.normal(size=(320, 10)).astype("float32")
    y = (x @ rng.normal(size=(10, 1))).astype("float32")
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(GLOBAL_BATCH)


strategy = two_cpus()
print("replicas:", strategy.num_replicas_in_sync)

with strategy.scope():
    init = tf.random.stateless_normal((10, 1), (7, 7)) * 0.1
    weights = tf.Variable(init, name="weights")
    bias = tf.Variable(tf.zeros(1), name="bias")


def replica_step(x, y):
    with tf.GradientTape() as tape:
        guess = tf.matmul(x, weights)  # op: MatMul
        error = tf.math.squared_difference(guess + bias, y)  # op: SquaredDifference
        loss = tf.nn.compute_average_loss(error[:, 0], global_batch_size=GLOBAL_BATCH)
    gradients = tape.gradient(loss, [weights, bias])  # op: MatMul
    context = tf.distribute.get_replica_context()
    gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
    weights.assign_sub(0.1 * gradients[0])  # op: AssignSubVariableOp
    bias.assign_sub(0.1 * gradients[1])  # op: AssignSubVariableOp
    return loss


@tf.function
def train_step(x, y):
    losses = strategy.run(replica_step, args=(x, y))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)


def main():
    data = strategy.experimental_distribute_dataset(make_dataset())
    for epoch in range(4):
        total = 0.0
        for x, y in data:
            total += float(train_step(x, y))
        print(f"epoch {epoch}: loss {total / 10:.2f}")
    copies = strategy.experimental_local_results(weights)
    same = tf.reduce_all(tf.abs(copies[0] - copies[1]) < 1e-5)
    print("copies agree:", bool(same))
    print(f"norm of the weights {float(tf.norm(copies[0])):.1f}")


if __name__ == "__main__":
    main()
