"""tf.device scopes: the table on the CPU, the arithmetic on the first GPU where there is one."""

import tensorflow as tf

tf.config.set_soft_device_placement(True)

ROWS = 300
WIDTH = 16


class TwoTower(tf.Module):
    """A big table kept in host memory and a small network beside it."""

    def __init__(self):
        super().__init__()
        with tf.device("/CPU:0"):
            start = tf.random.stateless_normal((ROWS, WIDTH), (18, 1))
            self.table = tf.Variable(0.1 * start, name="table")
        with tf.device("/GPU:0"):
            start = tf.random.stateless_normal((WIDTH, 1), (18, 2))
            self.kernel = tf.Variable(0.1 * start, name="kernel")

    @tf.function
    def train(self, rows, target):
        with tf.GradientTape() as tape:
            with tf.device("/CPU:0"):
                found = tf.gather(self.table, rows)  # op: ResourceGather
            with tf.device("/GPU:0"):
                guess = tf.matmul(found, self.kernel)  # op: MatMul
                loss = tf.reduce_mean(tf.math.squared_difference(guess, target))
        sparse, dense = tape.gradient(loss, [self.table, self.kernel])  # op: MatMul
        with tf.device("/CPU:0"):
            change = tf.IndexedSlices(5.0 * sparse.values, sparse.indices)
            self.table.scatter_sub(change)  # op: ResourceScatterSub
        with tf.device("/GPU:0"):
            self.kernel.assign_sub(0.5 * dense)
        return loss


def eager_round_trip(steps):
    """Products on one device, sorting on the other, as a first version often has it."""
    value = tf.random.stateless_normal((32, 32), (18, 3))
    for _ in range(steps):
        with tf.device("/GPU:0"):
            value = tf.linalg.matmul(value, value, transpose_b=True)  # op: MatMul
        with tf.device("/CPU:0"):
            value = tf.sort(value, axis=1)  # op: TopKV2
            value = value / tf.norm(value)
    return value


def main():
    model = TwoTower()
    for step in range(40):
        rows = tf.random.stateless_uniform((32,), (step, 4), 0, ROWS, tf.int32)
        target = tf.cast(rows[:, None] % 2, tf.float32)
        loss = model.train(rows, target)
        if step % 10 == 0:
            print(f"step {step}: loss {float(loss):.2f}")
    print("table lies on a CPU:", "CPU" in model.table.device)
    value = eager_round_trip(20)
    print(f"largest {float(tf.reduce_max(value)):.2f} of {value.shape}")


if __name__ == "__main__":
    main()
