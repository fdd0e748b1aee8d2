"""Subclassed Keras model with its own train_step: a small GAN on a ring of points."""

import math

import tensorflow as tf

NOISE = 4


def network(outputs):
    return tf.keras.Sequential(
        [tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(outputs)]
    )


class Gan(tf.keras.Model):
    """A generator of points and a judge of them, trained against each other."""

    def __init__(self):
        super().__init__()
        self.generator = network(2)
        self.judge = network(1)
        self.generator.build((None, NOISE))
        self.judge.build((None, 2))
        self.generator_optimizer = tf.keras.optimizers.Adam(0.01)
        self.judge_optimizer = tf.keras.optimizers.Adam(0.01)
        self.entropy = tf.keras.losses.BinaryCrossentropy(from_logits=True)

    def call(self, noise):
        return self.generator(noise)  # op: MatMul

    def train_step(self, real):
        count = tf.shape(real)[0]
        noise = tf.random.normal((count, NOISE), seed=5)  # op: RandomStandardNormal
        fake = self.generator(noise)  # op: MatMul
        points = tf.concat([real, fake], 0)
        truth = tf.concat([tf.ones((count, 1)), tf.zeros((count, 1))], 0)

        weights = self.judge.trainable_variables
        with tf.GradientTape() as tape:
            judged = self.judge(points)  # op: MatMul
            judge_loss = self.entropy(truth, judged)
        gradients = tape.gradient(judge_loss, weights)  # op: MatMul
        self.judge_optimizer.apply_gradients(zip(gradients, weights))

        weights = self.generator.trainable_variables
        with tf.GradientTape() as tape:
            fake = self.generator(noise)  # op: MatMul
            judged = self.judge(fake)  # op: MatMul
            generator_loss = self.entropy(tf.ones((count, 1)), judged)
        gradients = tape.gradient(generator_loss, weights)  # op: MatMul
        self.generator_optimizer.apply_gradients(zip(gradients, weights))
        return {"judge": judge_loss, "generator": generator_loss}


def main():
    tf.keras.utils.set_random_seed(11)
    angles = tf.random.uniform((256,), maxval=2 * math.pi, seed=2)
    ring = tf.stack([tf.cos(angles), tf.sin(angles)], axis=1)  # op: Cos
    data = tf.data.Dataset.from_tensor_slices(ring).batch(32, drop_remainder=True)

    gan = Gan()
    gan.compile()
    gan.fit(data, epochs=3, verbose=0)

    made = gan(tf.random.stateless_normal((100, NOISE), seed=(1, 2)))
    radius = tf.reduce_mean(tf.norm(made, axis=1))
    print("made", made.shape, "points")
    print("radius is finite:", bool(tf.math.is_finite(radius)))
    print(f"mean radius {float(radius):.2f}")


main()
