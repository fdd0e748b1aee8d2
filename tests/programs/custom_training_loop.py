"""Custom training loop: tf.function train step over a hand-written classifier."""

import argparse
import time

import tensorflow as tf


class Classifier(tf.Module):
    """Two dense layers, by hand."""

    def __init__(self, inputs, hidden, classes):
        super().__init__(name="classifier")
        init = tf.random_normal_initializer(stddev=0.3, seed=13)
        self.w1 = tf.Variable(init((inputs, hidden)), name="w1")
        self.b1 = tf.Variable(tf.zeros(hidden), name="b1")
        self.w2 = tf.Variable(init((hidden, classes)), name="w2")
        self.b2 = tf.Variable(tf.zeros(classes), name="b2")

    def __call__(self, x):
        hidden = tf.matmul(x, self.w1)  # op: MatMul
        hidden = tf.nn.relu(tf.nn.bias_add(hidden, self.b1))
        logits = tf.matmul(hidden, self.w2)  # op: MatMul
        return tf.nn.bias_add(logits, self.b2)


@tf.function
def train_step(model, images, labels, rate):
    with tf.GradientTape() as tape:
        logits = model(images)
        truth = tf.one_hot(labels, 4)
        losses = tf.nn.softmax_cross_entropy_with_logits(truth, logits)
        loss = tf.reduce_mean(losses)
    variables = model.trainable_variables
    gradients = tape.gradient(loss, variables)  # op: MatMul
    for index, variable in enumerate(variables):
        variable.assign_sub(rate * gradients[index])  # op: AssignSubVariableOp
    return loss


@tf.function
def accuracy(model, images, labels):
    guess = tf.argmax(model(images), axis=1, output_type=tf.int32)  # op: ArgMax
    return tf.reduce_mean(tf.cast(tf.equal(guess, labels), tf.float32))


def clusters(count, centres):
    labels = tf.random.stateless_uniform((count,), (1, 1), 0, 4, tf.int32)
    points = tf.gather(centres, labels)
    return points + tf.random.stateless_normal(points.shape, (2, 2)), labels


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rate", type=float, default=0.1)
    args = parser.parse_args()

    tf.random.set_seed(13)
    centres = tf.random.stateless_normal((4, 10), (3, 3)) * 2
    images, labels = clusters(512, centres)
    data = tf.data.Dataset.from_tensor_slices((images, labels)).batch(64).repeat()

    model = Classifier(10, 32, 4)
    rate = tf.constant(args.rate)
    started = time.perf_counter()
    for step, (batch, truth) in enumerate(data.take(args.steps)):
        loss = train_step(model, batch, truth, rate)
        if step % 20 == 0:
            print(f"step {step}: loss {float(loss):.2f}")
    elapsed = time.perf_counter() - started
    print(f"{args.steps} steps in {elapsed:.2f} s ({1000 * elapsed / args.steps:.1f} ms/step)")
    print(f"accuracy {float(accuracy(model, images, labels)):.2f}")


if __name__ == "__main__":
    main()
