"""Custom gradients: a straight-through rounding and a clipped layer, in a quantised network."""

import tensorflow as tf


@tf.custom_gradient
def quantise(x):
    """Rounds to steps of an eighth; the gradient passes straight through."""
    rounded = tf.round(x * 8.0) / 8.0  # op: Round

    def gradient(upstream):
        inside = tf.cast(tf.abs(x) <= 1.0, x.dtype)
        return upstream * inside

    return rounded, gradient


@tf.custom_gradient
def tame(x):
    """The identity; the gradient's norm is kept below one."""

    def gradient(upstream):
        return tf.clip_by_norm(upstream, 1.0)

    return tf.identity(x), gradient


class Quantised(tf.Module):
    """Two layers whose weights take few values."""

    def __init__(self, width):
        super().__init__()
        self.first = tf.Variable(0.4 * tf.random.stateless_normal((6, width), (12, 1)))
        self.second = tf.Variable(0.4 * tf.random.stateless_normal((width, 1), (12, 2)))

    def __call__(self, x):
        hidden = tf.nn.elu(tf.matmul(x, quantise(self.first)))  # op: Elu, MatMul
        hidden = tame(hidden)
        return tf.matmul(hidden, quantise(self.second))  # op: MatMul


@tf.function
def train(model, x, y):
    with tf.GradientTape() as tape:
        guess = model(x)
        error = tf.math.squared_difference(guess, y)
        loss = tf.reduce_mean(error)
    gradients = tape.gradient(loss, model.trainable_variables)  # op: MatMul
    for index, variable in enumerate(model.trainable_variables):
        variable.assign_sub(0.1 * gradients[index])  # op: AssignSubVariableOp
    return loss


def main():
    x = tf.random.stateless_normal((128, 6), (12, 3))
    y = tf.tanh(x[:, :1] - x[:, 1:2])
    model = Quantised(24)
    for step in range(50):
        loss = train(model, x, y)
        if step % 10 == 0:
            print(f"step {step}: loss {float(loss):.2f}")
    with tf.GradientTape() as tape:
        value = tf.Variable([0.3, -2.0, 0.9])
        total = tf.reduce_sum(quantise(value))
    print("straight through:", tape.gradient(total, value).numpy().tolist())
    levels = tf.unique(tf.reshape(quantise(model.first), [-1])).y
    eighths = tf.round(levels * 8.0)  # op: Round
    print("levels are eighths:", bool(tf.reduce_all(levels * 8.0 == eighths)))


if __name__ == "__main__":
    main()
