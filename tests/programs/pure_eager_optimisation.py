"""Pure eager: minimises functions step by step, with no tf.function and no model."""

import tensorflow as tf


def rosenbrock(point):
    x, y = tf.unstack(point)  # op: Unpack
    first = tf.pow(1.0 - x, 2.0)
    second = tf.pow(y - tf.pow(x, 2.0), 2.0)
    return first + 100.0 * second


def steepest_descent(function, start, rate, steps):
    """Gradient descent with momentum; yields every value on the way."""
    point = tf.Variable(start)
    speed = tf.zeros_like(point)
    for _ in range(steps):
        with tf.GradientTape() as tape:
            value = function(point)
        slope = tape.gradient(value, point)
        speed = 0.9 * speed - rate * slope
        point.assign_add(speed)
        yield float(value), point


def conjugate_gradient(matrix, right, steps):
    """Solves a symmetric positive system without factorising it."""
    solution = tf.zeros_like(right)
    residual = right
    direction = residual
    for _ in range(steps):
        image = tf.linalg.matmul(matrix, direction)  # op: MatMul
        before = tf.reduce_sum(residual * residual)  # op: Sum
        length = before / tf.reduce_sum(direction * image)  # op: Sum
        solution = solution + length * direction
        residual = residual - length * image
        after = tf.reduce_sum(residual * residual)  # op: Sum
        if float(after) < 1e-10:
            break
        direction = residual + after / before * direction
    return solution


def main():
    for step, (value, point) in enumerate(steepest_descent(rosenbrock, [-1.0, 1.0], 1e-3, 200)):
        if step % 50 == 0:
            x, y = point.numpy()
            print(f"step {step}: {value:.2f} at ({x:.2f}, {y:.2f})")

    half = tf.random.stateless_normal((24, 24), (10, 1))
    matrix = tf.linalg.matmul(half, half, transpose_b=True) + 24.0 * tf.eye(24)  # op: MatMul
    right = tf.random.stateless_normal((24, 1), (10, 2))
    found = conjugate_gradient(matrix, right, 40)
    factor = tf.linalg.cholesky(matrix)  # op: Cholesky
    exact = tf.linalg.cholesky_solve(factor, right)
    print("solvers agree:", bool(tf.reduce_max(tf.abs(found - exact)) < 1e-3))
    values = tf.linalg.eigvalsh(matrix)  # op: SelfAdjointEigV2
    print(f"condition number {float(values[-1] / values[0]):.1f}")


if __name__ == "__main__":
    main()
