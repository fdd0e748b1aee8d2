"""tf.py_function in an input pipeline: a spectrogram with a window that Python computes."""

import numpy as np
import tensorflow as tf

FRAME = 32
HOP = 16


def tone(frequency, seed):
    rng = np.random.default_rng(seed)
    time = np.arange(256) / 256
    wave = np.sin(2 * np.pi * frequency * time) + 0.1 * rng.normal(size=256)
    return wave.astype("float32")


def hann():
    return tf.constant(np.hanning(FRAME).astype("float32"))


def spectrum(wave, gain):
    """Run eagerly by TensorFlow; may call anything in Python."""
    frames = tf.signal.frame(wave, FRAME, HOP)
    windowed = frames * hann()
    transformed = tf.signal.rfft(windowed)  # op: RFFT
    power = tf.abs(transformed)  # op: ComplexAbs
    if float(gain) != 1.0:
        power = power * gain
    return tf.math.log1p(power)  # op: Log1p


def preprocess(wave, label):
    image = tf.py_function(spectrum, [wave, 2.0], tf.float32)  # op: EagerPyFunc
    image.set_shape((15, FRAME // 2 + 1))
    return image, label


def main():
    tf.random.set_seed(71)
    frequencies = [8, 24, 40, 56] * 8
    waves = np.stack([tone(f, seed) for seed, f in enumerate(frequencies)])
    labels = np.array(frequencies) // 16
    data = tf.data.Dataset.from_tensor_slices((waves, labels)).map(preprocess).batch(8)

    right = 0
    for number, (images, truth) in enumerate(data):
        average = tf.reduce_mean(images, axis=1)
        peak = tf.argmax(average, axis=1)  # op: ArgMax
        guess = peak * (256 // FRAME) // 16
        right += int(tf.reduce_sum(tf.cast(guess == truth, tf.int32)))
        print(f"batch {number}: {images.shape}, peaks {peak.numpy()[:4].tolist()}")
    print(f"right: {right} of {len(frequencies)}")


main()
