"""Recurrent network over text: TextVectorization, an Embedding and an LSTM say if it is praise."""

import random

import numpy as np
import tensorflow as tf

GOOD = ["lovely", "great", "splendid", "fine"]
BAD = ["dull", "poor", "awful", "weak"]
FILLER = ["the", "film", "was", "really", "quite", "and", "actors", "music"]


def reviews(count, seed):
    chooser = random.Random(seed)
    texts, labels = [], []
    for _ in range(count):
        label = chooser.randint(0, 1)
        words = chooser.choices(FILLER, k=6)
        words.insert(chooser.randint(0, 6), chooser.choice(GOOD if label else BAD))
        texts.append(" ".join(words) + chooser.choice([".", "!", ""]))
        labels.append(label)
    return texts, np.array(labels, "float32")


def build(vocabulary_size):
    return tf.keras.Sequential(
        [
            tf.keras.Input((None,), dtype="int64"),
            tf.keras.layers.Embedding(vocabulary_size, 8),
            tf.keras.layers.LSTM(12),
            tf.keras.layers.Dense(1),
        ]
    )


def main():
    tf.keras.utils.set_random_seed(41)
    texts, labels = reviews(320, seed=1)
    vectorize = tf.keras.layers.TextVectorization(output_sequence_length=8)
    corpus = tf.data.Dataset.from_tensor_slices(texts).batch(64)
    vectorize.adapt(corpus)  # op: StringSplitV2
    vocabulary = vectorize.get_vocabulary()
    print("words:", len(vocabulary), " ".join(sorted(vocabulary)[2:6]))

    data = tf.data.Dataset.from_tensor_slices((texts, labels)).batch(32)
    numbers = data.map(lambda text, y: (vectorize(text), y))  # op: StringSplitV2
    model = build(len(vocabulary))
    loss = tf.keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.Adam(0.02), loss)
    model.fit(numbers, epochs=2, verbose=2)  # op: MatMul

    fresh = tf.constant(["The film was splendid!", "really awful, the music"])
    tokens = vectorize(fresh)  # op: StringSplitV2
    print("tokens:", tokens.shape)
    scores = model(tokens)  # op: MatMul
    print("praise:", [bool(score > 0) for score in scores.numpy()[:, 0]])


if __name__ == "__main__":
    main()
