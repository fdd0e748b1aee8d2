"""tf.map_fn, tf.vectorized_map and tf.scan over batches of small linear systems."""

import time

import tensorflow as tf

BATCH = 6
SIZE = 8


def solve_one(system):
    matrix, right = system
    product = tf.linalg.matmul(matrix, matrix, transpose_a=True)  # op: MatMul
    regular = product + 0.5 * tf.eye(SIZE)
    return tf.linalg.solve(regular, right)  # op: MatrixSolve


@tf.function
def one_after_another(matrices, rights):
    systems = (matrices, rights)
    return tf.map_fn(solve_one, systems, fn_output_signature=tf.float32)


@tf.function
def all_at_once(matrices, rights):
    return tf.vectorized_map(solve_one, (matrices, rights))  # op: BatchMatMulV2, MatrixSolve


@tf.function
def running_average(values):
    return tf.scan(lambda average, value: 0.8 * average + 0.2 * value, values)


def timed(function, *arguments):
    started = time.perf_counter()
    result = function(*arguments)
    return result, time.perf_counter() - started


def main():
    waits = {"map_fn": 0.0, "vectorized_map": 0.0}
    norms = []
    for batch in range(12):
        matrices = tf.random.stateless_normal((BATCH, SIZE, SIZE), (batch, 1))
        rights = tf.random.stateless_normal((BATCH, SIZE, 1), (batch, 2))
        slow, wait = timed(one_after_another, matrices, rights)
        waits["map_fn"] += wait
        fast, wait = timed(all_at_once, matrices, rights)
        waits["vectorized_map"] += wait
        tf.debugging.assert_near(slow, fast, atol=1e-2)
        norms.append(tf.norm(slow))
    for name, wait in waits.items():
        print(f"{name}: {wait:.3f} s in all, {1000 * wait / 12:.1f} ms a batch")

    stacked = tf.stack(norms)
    print("norms:", [f"{norm:.1f}" for norm in stacked.numpy()[:4]])
    smooth = running_average(stacked)
    print("smoothed:", [f"{norm:.1f}" for norm in smooth.numpy()[:4]])


main()
