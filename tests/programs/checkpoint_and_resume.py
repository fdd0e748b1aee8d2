"""Training in two parts with tf.train.Checkpoint: the second part resumes where the first ended."""

import tempfile

import tensorflow as tf

BATCH = 16


def dataset():
    x = tf.random.stateless_normal((320, 7), (15, 1))
    y = tf.reduce_sum(x[:, :3], axis=1, keepdims=True)
    pairs = tf.data.Dataset.from_tensor_slices((x, y))
    return pairs.shuffle(320, seed=15).repeat().batch(BATCH)


class Training(tf.Module):
    """Weights, the momentum of each, and the number of the step."""

    def __init__(self):
        super().__init__()
        self.kernel = tf.Variable(tf.zeros((7, 1)), name="kernel")
        self.momentum = tf.Variable(tf.zeros((7, 1)), name="momentum", trainable=False)
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False)

    @tf.function
    def step(self, x, y):
        with tf.GradientTape() as tape:
            guess = tf.matmul(x, self.kernel)  # op: MatMul
            loss = tf.reduce_mean(tf.math.squared_difference(guess, y))  # op: SquaredDifference
        slope = tape.gradient(loss, self.kernel)  # op: MatMul
        tf.raw_ops.ResourceApplyKerasMomentum(  # op: ResourceApplyKerasMomentum
            var=self.kernel.handle, accum=self.momentum.handle, lr=0.05, grad=slope, momentum=0.8
        )
        self.steps.assign_add(1)
        return loss


def part(folder, steps):
    """Train for some steps, from the last checkpoint where there is one."""
    tf.random.set_seed(15)
    training = Training()
    batches = iter(dataset())
    checkpoint = tf.train.Checkpoint(training=training, batches=batches)
    manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=2)
    found = manager.restore_or_initialize()
    print("resumed at" if found else "starts at", int(training.steps))

    loss = None
    for _ in range(steps):
        x, y = next(batches)
        loss = training.step(x, y)
        if int(training.steps) % 10 == 0:
            manager.save(checkpoint_number=int(training.steps))
    print(f"step {int(training.steps)}: loss {float(loss):.2f}")
    return [path.rsplit("/", 1)[1] for path in manager.checkpoints]


def main():
    with tempfile.TemporaryDirectory() as folder:
        print("kept:", part(folder, 25))
        print("kept:", part(folder, 20))
        reader = tf.train.load_checkpoint(folder)
        steps = reader.get_tensor("training/steps/.ATTRIBUTES/VARIABLE_VALUE")
        print("steps in the file:", int(steps))


if __name__ == "__main__":
    main()
