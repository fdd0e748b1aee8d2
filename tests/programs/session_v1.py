"""Graph and Session in the manner of TensorFlow 1: placeholders, variables, an optimizer."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

FEATURES = 8


def inference(x):
    with tf.variable_scope("model"):
        shape = (FEATURES, 16)
        w1 = tf.get_variable("w1", shape, initializer=tf.random_normal_initializer(seed=1))
        b1 = tf.get_variable("b1", (16,), initializer=tf.zeros_initializer())
        w2 = tf.get_variable("w2", (16, 1), initializer=tf.random_normal_initializer(seed=2))
        product = tf.matmul(x, w1)  # op: MatMul
        hidden = tf.nn.tanh(product + b1)
        return tf.squeeze(tf.matmul(hidden, w2), axis=1)  # op: MatMul


def batches(count, size, seed):
    rng = np.random.RandomState(seed)
    for _ in range(count):
        x = rng.normal(size=(size, FEATURES)).astype("float32")
        yield x, np.sin(x[:, 0]) + 0.5 * x[:, 1]


def main():
    with tf.Graph().as_default():
        tf.set_random_seed(51)
        x = tf.placeholder(tf.float32, (None, FEATURES), name="x")
        y = tf.placeholder(tf.float32, (None,), name="y")
        rate = tf.placeholder_with_default(0.02, (), name="rate")
        prediction = inference(x)
        residual = tf.squared_difference(prediction, y)  # op: SquaredDifference
        loss = tf.reduce_mean(residual, name="loss")
        optimizer = tf.train.GradientDescentOptimizer(rate)
        step = tf.train.get_or_create_global_step()
        train = optimizer.minimize(loss, global_step=step)  # op: ApplyGradientDescent, MatMul
        ranked = tf.nn.top_k(prediction, k=3)  # op: TopKV2
        init = tf.global_variables_initializer()

        config = tf.ConfigProto(allow_soft_placement=True)
        with tf.Session(config=config) as session:
            session.run(init)
            for batch, (features, targets) in enumerate(batches(80, 32, seed=6)):
                feed = {x: features, y: targets, rate: 0.02 if batch < 40 else 0.01}
                _, value = session.run([train, loss], feed_dict=feed)
                if batch % 20 == 0:
                    print(f"batch {batch}: loss {value:.2f}")
            features, targets = next(batches(1, 10, seed=7))
            best, value = session.run([ranked, loss], {x: features, y: targets})
            print("best rows:", best.indices.tolist())
            print(f"loss on fresh data {value:.2f} after {session.run(step)} steps")


if __name__ == "__main__":
    main()
