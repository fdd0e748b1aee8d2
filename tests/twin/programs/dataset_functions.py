"""Functions of every kind that datasets call: what they capture and ask for decides their place."""

import tensorflow as tf

weights = tf.Variable(tf.random.normal([16, 16]))
counter = tf.Variable(0, dtype=tf.int64)
with tf.device("/cpu:0"):
    on_cpu = tf.Variable(tf.random.normal([16, 16]))
table = tf.lookup.StaticHashTable(
    tf.lookup.KeyValueTensorInitializer(tf.range(10, dtype=tf.int64), tf.range(10.0)), -1.0
)
captured = tf.random.normal([16, 16])
numbers = tf.data.Dataset.range(20)


def image(i):
    return tf.random.stateless_normal([16, 16], [1, i])


def model(x):
    return tf.matmul(x, weights) + captured


def asks(x):
    with tf.device("/gpu:0"):
        y = tf.matmul(x, weights)
        text = tf.strings.as_string(x)
        size = tf.shape(y)[0] * 2
    with tf.device("/cpu:0"):
        z = tf.matmul(y, weights)
    return y + z, text, size


def window(_, elements):
    return elements.batch(4).map(lambda _, x: model(x))


@tf.function
def called(x):
    return tf.nn.relu(model(x))


images = numbers.map(image)
for dataset in (
    images.map(model),
    images.map(lambda x: model(x) + tf.matmul(x, on_cpu), num_parallel_calls=2),
    numbers.filter(lambda i: table.lookup(i) >= 0.0),
    numbers.interleave(lambda i: tf.data.Dataset.from_tensors(image(i)).map(model)),
    numbers.flat_map(lambda i: tf.data.Dataset.from_tensors(model(image(i))).repeat(2)),
    images.scan(tf.zeros([16, 16]), lambda state, x: (state + model(x), state)),
    images.take_while(lambda x: tf.reduce_sum(model(x)) < 1e9),
    numbers.map(lambda i: (i, image(i))).group_by_window(lambda i, _: i % 2, window, 4),
    images.map(asks),
    images.map(lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: model(x), lambda: x)),
    images.map(lambda x: tf.while_loop(lambda y: tf.norm(y) < 9, lambda y: [model(y)], [x])[0]),
    numbers.map(counter.assign_add),
    images.map(called),
):
    for _ in dataset.take(3):
        pass


@tf.function
def step(dataset):
    total, count = tf.zeros([16, 16]), 0
    for x in dataset:
        if tf.reduce_sum(x) > 1e9:
            continue
        total += model(x)
        count += 1
    for x in tf.data.Dataset.range(3).map(image).batch(2):
        total += tf.reduce_sum(called(x), 0)
    return total, count


@tf.function
def next_step(iterator):
    return model(next(iterator))


step(images.map(model))
with tf.device("/cpu:0"):
    step(images)
images.reduce(tf.zeros([16, 16]), lambda state, x: state + model(x))
iterator = iter(images.map(model))
for _ in range(3):
    next_step(iterator)
