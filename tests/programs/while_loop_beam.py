"""Beam search in a tf.while_loop: the likeliest strings of a small Markov chain."""

import tensorflow as tf

LETTERS = "abcdefgh"
START = 0
BEAM = 3


def transition_matrix(seed):
    size = len(LETTERS)
    logits = 2.0 * tf.random.stateless_normal((size, size), (seed, seed))
    return tf.nn.log_softmax(logits)  # op: LogSoftmax


@tf.function
def beam_search(logs, length):
    """The `BEAM` likeliest sequences from `START`, with their log probabilities."""
    size = tf.shape(logs)[0]

    def unfinished(position, _scores, _paths):
        return position < length

    def extend(position, scores, paths):
        last = paths[:, -1]
        rows = tf.gather(logs, last)  # op: GatherV2
        candidates = tf.reshape(scores[:, None] + rows, [-1])
        best, places = tf.math.top_k(candidates, k=BEAM)  # op: TopKV2
        parents = tf.gather(paths, places // size)  # op: GatherV2
        longer = tf.concat([parents, (places % size)[:, None]], axis=1)
        return position + 1, best, longer

    first, letters = tf.math.top_k(logs[START], k=BEAM)  # op: TopKV2
    paths = tf.stack([tf.fill([BEAM], START), letters], axis=1)
    free = [tf.TensorShape([]), tf.TensorShape([BEAM]), tf.TensorShape([BEAM, None])]
    state = [tf.constant(1), first, paths]
    _, scores, paths = tf.while_loop(unfinished, extend, state, shape_invariants=free)
    return scores, paths


@tf.function
def greedy(logs, length):
    """The same with one path, as AutoGraph makes it of a Python loop."""
    letter = tf.constant(START)
    total = tf.constant(0.0)
    for _ in tf.range(length):
        row = logs[letter]
        letter = tf.argmax(row, output_type=tf.int32)  # op: ArgMax
        total += tf.reduce_max(row)
    return total


def spell(path):
    return "".join(LETTERS[letter] for letter in path)


def main():
    worse = 0
    for seed in range(20):
        logs = transition_matrix(seed)
        scores, paths = beam_search(logs, tf.constant(6))
        single = greedy(logs, tf.constant(6))
        worse += int(float(single) < float(scores[0]) - 1e-4)
        if seed % 5 == 0:
            print(f"{spell(paths[0].numpy())} {float(scores[0]):.2f}, greedy {float(single):.2f}")
    print(f"the beam found a better string in {worse} of 20 chains")


if __name__ == "__main__":
    main()
