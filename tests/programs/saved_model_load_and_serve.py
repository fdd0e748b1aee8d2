"""A module exported as a SavedModel with signatures, loaded again, and asked in a loop."""

import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf


class Recommender(tf.Module):
    """Scores items for a user by the product of two tables."""

    def __init__(self, users, items, width):
        super().__init__()
        self.users = tf.Variable(tf.random.stateless_normal((users, width), (1, 9)))
        self.items = tf.Variable(tf.random.stateless_normal((items, width), (2, 9)))

    @tf.function(input_signature=[tf.TensorSpec((None,), tf.int32, name="user")])
    def recommend(self, user):
        rows = tf.gather(self.users, user)
        scores = tf.matmul(rows, self.items, transpose_b=True)  # op: MatMul
        best = tf.math.top_k(scores, k=3)  # op: TopKV2
        return {"items": best.indices, "scores": best.values}

    @tf.function(input_signature=[tf.TensorSpec((None,), tf.string, name="request")])
    def describe(self, request):
        user = tf.strings.to_number(request, tf.int32)  # op: StringToNumber
        items = self.recommend(user)["items"]
        return {"text": tf.strings.reduce_join(tf.strings.as_string(items), 1, separator="|")}


def export(folder):
    module = Recommender(50, 30, 8)
    signatures = {"serving_default": module.recommend, "describe": module.describe}
    tf.saved_model.save(module, folder, signatures=signatures)


def serve(folder, requests):
    """Answers requests as a server would: through the signatures alone."""
    loaded = tf.saved_model.load(folder)  # loads
    recommend = loaded.signatures["serving_default"]
    describe = loaded.signatures["describe"]
    seen = set()
    for user in requests:
        answer = recommend(user=user)
        seen.update(answer["items"].numpy().ravel().tolist())
    words = tf.strings.as_string(requests[0])
    texts = describe(request=words)["text"]
    return seen, [text.decode() for text in texts.numpy()]


def main():
    rng = np.random.default_rng(91)
    requests = [tf.constant(rng.integers(0, 50, 4), tf.int32) for _ in range(40)]
    with tempfile.TemporaryDirectory() as name:
        folder = str(Path(name) / "recommender" / "1")
        export(folder)
        print("files:", sorted(path.name for path in Path(folder).iterdir())[-2:])
        seen, texts = serve(folder, requests)
    print("items ever recommended:", len(seen))
    print("first answers:", texts)


if __name__ == "__main__":
    main()
