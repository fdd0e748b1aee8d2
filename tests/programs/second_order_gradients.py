"""Second derivatives: Newton steps with a Hessian, and a gradient penalty with nested tapes."""

import tensorflow as tf

tf.random.set_seed(14)


def make_data():
    x = tf.random.stateless_normal((200, 3), (14, 1))
    truth = tf.cast(x[:, 0] - 0.5 * x[:, 1] > 0.3 * x[:, 2], tf.float32)
    return x, truth


def logistic_loss(weights, x, truth):
    scores = tf.linalg.matvec(x, weights)  # op: MatMul
    losses = tf.nn.sigmoid_cross_entropy_with_logits(truth, scores)
    return tf.reduce_mean(losses) + 0.01 * tf.nn.l2_loss(weights)  # op: L2Loss


@tf.function
def newton_step(weights, x, truth):
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            loss = logistic_loss(weights, x, truth)
        gradient = inner.gradient(loss, weights)  # op: MatMul
    hessian = outer.jacobian(gradient, weights)  # op: MatMul
    step = tf.linalg.solve(hessian, gradient[:, None])  # op: MatrixSolve
    weights.assign_sub(step[:, 0])
    return loss, tf.norm(gradient)


def penalised(network, x):
    """The sum of the outputs and the mean squared norm of its slope by the inputs."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = tf.reduce_sum(network(x))
    slope = tape.gradient(value, x)  # op: MatMul
    return value, tf.reduce_mean(tf.reduce_sum(slope * slope, axis=1))


def main():
    x, truth = make_data()
    weights = tf.Variable(tf.zeros(3))
    for step in range(6):
        loss, norm = newton_step(weights, x, truth)
        print(f"newton {step}: loss {float(loss):.3f}, gradient {float(norm):.2f}")

    matrix = tf.Variable(tf.random.stateless_normal((3, 5), (14, 2)))

    def network(points):
        return tf.reduce_sum(tf.sin(tf.matmul(points, matrix)), axis=1)  # op: MatMul, Sin

    first = None
    for _ in range(20):
        with tf.GradientTape() as tape:
            _, penalty = penalised(network, x)
        correction = tape.gradient(penalty, matrix)  # op: MatMul, Sin
        matrix.assign_sub(0.05 * correction)
        first = penalty if first is None else first
    print(f"penalty from {float(first):.1f} to {float(penalty):.1f}")


if __name__ == "__main__":
    main()
