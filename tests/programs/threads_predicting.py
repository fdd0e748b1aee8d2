"""Threads that ask one model at the same time, as a small server does; answers keep their order."""

import queue
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tensorflow as tf

WORKERS = 3


class Scorer(tf.Module):
    """A small network; one traced function for all threads."""

    def __init__(self):
        super().__init__()
        self.kernel = tf.Variable(tf.random.stateless_normal((12, 24), (20, 1)))
        self.out = tf.Variable(tf.random.stateless_normal((24, 3), (20, 2)))

    @tf.function(input_signature=[tf.TensorSpec((None, 12), tf.float32)])
    def score(self, x):
        hidden = tf.nn.tanh(tf.matmul(x, self.kernel))  # op: MatMul
        return tf.nn.softmax(tf.matmul(hidden, self.out))  # op: MatMul, Softmax


def answer(scorer, request):
    """One request: scaled eagerly, scored by the graph, ranked eagerly."""
    scaled = tf.math.l2_normalize(request, axis=1)
    scores = scorer.score(scaled)
    return tf.argmax(scores, axis=1).numpy().tolist()  # op: ArgMax


def log_worker(lines, written):
    """Takes lines until it is handed None."""
    while (line := lines.get()) is not None:
        written.append(tf.strings.upper(line).numpy().decode())  # op: StringUpper


def main():
    rng = np.random.default_rng(20)
    requests = [tf.constant(rng.normal(size=(4, 12)), tf.float32) for _ in range(60)]
    scorer = Scorer()
    lines, written = queue.Queue(), []
    logger = threading.Thread(target=log_worker, args=(lines, written), name="log")
    logger.start()

    with ThreadPoolExecutor(WORKERS, thread_name_prefix="predict") as pool:
        answers = list(pool.map(lambda request: answer(scorer, request), requests))
    for number, classes in enumerate(answers[:5]):
        lines.put(f"request {number}: {classes}")
    lines.put(None)
    logger.join()
    for line in written:
        print(line)
    alone = [answer(scorer, request) for request in requests[:10]]
    print("the same as alone:", alone == answers[:10])
    print("classes seen:", sorted({number for classes in answers for number in classes}))


if __name__ == "__main__":
    main()
