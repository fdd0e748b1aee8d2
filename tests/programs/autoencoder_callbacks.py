"""Keras autoencoder with checkpoints, a learning rate schedule, and a callback of its own."""

import logging
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf

logger = logging.getLogger("autoencoder")


class WorstSample(tf.keras.callbacks.Callback):
    """Prints after each epoch which sample is restored worst."""

    def __init__(self, samples):
        super().__init__()
        self.samples = tf.constant(samples)

    def on_epoch_end(self, epoch, logs=None):
        restored = self.model(self.samples, training=False)  # op: MatMul
        error = tf.reduce_mean(tf.square(restored - self.samples), axis=1)
        worst, index = tf.math.top_k(error, k=1)  # op: TopKV2
        print(
            f"epoch {epoch}: loss {logs['loss']:.2f}, worst {int(index[0])} {float(worst[0]):.2f}"
        )


def halve_late(epoch, rate):
    return float(rate) * (0.5 if epoch >= 2 else 1.0)


def build(features):
    return tf.keras.Sequential(
        [
            tf.keras.Input((features,)),
            tf.keras.layers.Dense(12, activation="relu"),
            tf.keras.layers.Dense(3, name="code"),
            tf.keras.layers.Dense(12, activation="relu"),
            tf.keras.layers.Dense(features),
        ]
    )


def main():
    logging.basicConfig(level=logging.WARNING)
    tf.keras.utils.set_random_seed(5)
    rng = np.random.default_rng(5)
    code = rng.normal(size=(400, 3))
    samples = (code @ rng.normal(size=(3, 20))).astype("float32")

    model = build(20)
    model.compile(tf.keras.optimizers.Adam(0.01), "mse")
    with tempfile.TemporaryDirectory() as folder:
        best = Path(folder) / "best.weights.h5"
        callbacks = [
            tf.keras.callbacks.ModelCheckpoint(
                str(best), monitor="loss", save_best_only=True, save_weights_only=True
            ),
            tf.keras.callbacks.LearningRateScheduler(halve_late),
            tf.keras.callbacks.EarlyStopping(monitor="loss", patience=3),
            WorstSample(samples[:16]),
        ]
        fit = {"batch_size": 50, "epochs": 4, "callbacks": callbacks}
        model.fit(samples, samples, **fit, verbose=0)  # op: MatMul
        again = build(20)
        again.load_weights(str(best))
    restored = again(samples[:4])  # op: MatMul
    print("restored", restored.shape, "from the best weights")
    if not np.isfinite(restored.numpy()).all():
        logger.warning("the network diverged")


main()
