"""A transformer encoder block over short token sequences, fitted with Keras."""

import numpy as np
import tensorflow as tf

VOCABULARY = 20
LENGTH = 10
WIDTH = 16


class TokenAndPosition(tf.keras.layers.Layer):
    """The sum of an embedding of the token and one of its position."""

    def __init__(self):
        super().__init__()
        self.token = tf.keras.layers.Embedding(VOCABULARY, WIDTH)
        self.position = tf.keras.layers.Embedding(LENGTH, WIDTH)

    def call(self, tokens):
        return self.token(tokens) + self.position(tf.range(LENGTH))


def encoder_block(x):
    attend = tf.keras.layers.MultiHeadAttention(num_heads=2, key_dim=8)
    attended = attend(x, x)  # op: StatelessRandomUniformV2
    x = tf.keras.layers.LayerNormalization()(x + attended)
    wide = tf.keras.layers.Dense(32, activation="gelu")(x)  # op: StatelessRandomUniformV2
    forward = tf.keras.layers.Dense(WIDTH)(wide)  # op: StatelessRandomUniformV2
    return tf.keras.layers.LayerNormalization()(x + forward)


def build_model():
    tokens = tf.keras.Input((LENGTH,), dtype="int32")
    x = TokenAndPosition()(tokens)  # op: StatelessRandomUniformV2
    x = encoder_block(x)
    x = tf.keras.layers.GlobalAveragePooling1D()(x)
    score = tf.keras.layers.Dense(1)(x)  # op: StatelessRandomUniformV2
    return tf.keras.Model(tokens, score)


def main():
    """Learn whether the token 7 occurs in the sequence."""
    tf.keras.utils.set_random_seed(21)
    rng = np.random.default_rng(21)
    tokens = rng.integers(1, VOCABULARY, (256, LENGTH)).astype("int32")
    target = (tokens == 7).any(axis=1).astype("float32")

    model = build_model()
    loss = tf.keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.Adam(0.01), loss)
    print("sequences:", tokens.shape, "positive:", int(target.sum()))
    model.fit(tokens, target, batch_size=32, epochs=3, verbose=2)  # op: Einsum

    with_token = np.full((1, LENGTH), 3, "int32")
    with_token[0, 4] = 7
    without = np.full((1, LENGTH), 3, "int32")
    higher = model(with_token) > model(without)  # op: Einsum
    print("token 7 raises the score:", bool(higher))


if __name__ == "__main__":
    main()
