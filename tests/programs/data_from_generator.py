"""tf.data from a Python generator; ends with status 3 when the loss is low enough early."""

import sys

import numpy as np
import tensorflow as tf

TARGET = 0.05
BATCH = 16
SENSORS = 5


def readings(count, seed):
    """Windows of sensor readings and the value that follows them."""
    rng = np.random.default_rng(seed)
    weights = np.linspace(-1, 1, SENSORS)
    for _ in range(count):
        window = rng.normal(size=SENSORS)
        yield window.astype("float32"), np.float32(window @ weights)


def scale(window, target):
    return tf.clip_by_value(window, -2.5, 2.5), target  # op: Minimum, Maximum


def make_dataset():
    signature = (tf.TensorSpec((SENSORS,), tf.float32), tf.TensorSpec((), tf.float32))
    dataset = tf.data.Dataset.from_generator(readings, output_signature=signature, args=(640, 3))
    return dataset.map(scale).shuffle(100, seed=9).batch(BATCH).prefetch(2)


@tf.function
def step(weights, windows, targets):
    with tf.GradientTape() as tape:
        guess = tf.linalg.matvec(windows, weights)  # op: MatMul
        loss = tf.reduce_mean(tf.math.squared_difference(guess, targets))  # op: SquaredDifference
    gradient = tape.gradient(loss, weights)  # op: MatMul
    weights.assign_sub(0.1 * gradient)  # op: AssignSubVariableOp
    return loss


def main():
    tf.random.set_seed(3)
    weights = tf.Variable(tf.zeros(SENSORS), name="weights")
    for number, (windows, targets) in enumerate(make_dataset()):
        loss = float(step(weights, windows, targets))
        if number % 5 == 0:
            print(f"batch {number}: loss {loss:.2f}")
        if number >= 20 and loss < TARGET:
            print(f"stopped early after batch {number}")
            return 3
    print("the whole data was used")
    return 0


if __name__ == "__main__":
    sys.exit(main())
