"""Functions and sessions with `pin_to_host_optimization` on: small and large, known and not."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import rewriter_config_pb2

tf.config.optimizer.set_experimental_options({"pin_to_host_optimization": True})

matrix = tf.Variable(tf.ones([9, 9]), name="matrix")
few = tf.constant(["a", "bcd", "ef"])
many = tf.constant([f"w{k}" for k in range(100)])


@tf.function
def arguments(small: tf.Tensor, large: tf.Tensor, whole: tf.Tensor) -> list[tf.Tensor]:
    a = tf.tanh(small, name="small_tanh")
    b = tf.tanh(large, name="large_tanh")
    c = tf.multiply(whole, 3, name="whole_mul")
    return [a, b, c, tf.reduce_sum(b, name="large_sum")]


@tf.function
def lengths(words: tf.Tensor) -> list[tf.Tensor]:
    n = tf.strings.length(words, name="lengths_n")
    f = tf.cast(n, tf.float32, name="lengths_f")
    d = tf.cast(n, tf.float64, name="lengths_d")
    scaled = tf.multiply(f, tf.ones([3]) / 2.0, name="lengths_scaled")
    tiled = tf.tile(scaled, [40], name="lengths_tiled")
    back = tf.reduce_max(tiled, name="lengths_back")
    return [
        d,
        tf.exp(back, name="lengths_after"),
        tf.sqrt(tf.reduce_sum(scaled), name="lengths_root"),
    ]


@tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
def open_lengths(words: tf.Tensor) -> list[tf.Tensor]:
    n = tf.strings.length(words, name="open_lengths_n")
    f = tf.cast(n, tf.float32, name="open_lengths_f")
    total = tf.reduce_sum(n, name="open_lengths_total")
    first = tf.strings.length(words[0], name="open_lengths_first")
    return [
        f,
        tf.multiply(total, 2, name="open_lengths_twice"),
        tf.cast(first, tf.float32, name="open_lengths_one"),
    ]


@tf.function(input_signature=[tf.TensorSpec([None, None, 3], tf.float32)])
def shapes(picture: tf.Tensor) -> list[tf.Tensor]:
    size = tf.shape(picture, name="size")
    half = tf.math.floordiv(size, 2, name="half")
    count = tf.size(picture, name="count")
    rank = tf.rank(picture, name="rank")
    places = tf.range(count, name="places")
    steps = tf.range(rank, name="steps")
    share = tf.cast(count, tf.float32, name="share")
    mean = tf.divide(tf.reduce_sum(picture, name="sum"), share, name="mean")
    cut = tf.slice(picture, [0, 0, 0], half, name="cut")
    return [places, steps, mean, tf.reduce_mean(cut, name="cut_mean")]


@tf.function
def inner(x: tf.Tensor) -> tf.Tensor:
    return tf.square(tf.cast(x, tf.float32, name="inner_cast"), name="inner_square")


@tf.function
def around(words: tf.Tensor) -> list[tf.Tensor]:
    near = inner(tf.strings.length(words, name="around_n"))
    far = inner(tf.strings.length(tf.repeat(words, 30), name="around_m"))
    product = tf.linalg.matvec(
        matrix, tf.pad(near, [[0, 6]], name="around_padded"), name="around_product"
    )
    return [near, far, product]


@tf.function(input_signature=[tf.TensorSpec(None, tf.int32)])
def any_size(x: tf.Tensor) -> tf.Tensor:
    return tf.square(tf.cast(x, tf.float32, name="any_cast"), name="any_square")


@tf.function
def around_any(words: tf.Tensor) -> tf.Tensor:
    return tf.negative(
        any_size(tf.strings.length(words, name="around_any_n")), name="around_any_negative"
    )


@tf.function
def loops(words: tf.Tensor, limit: tf.Tensor) -> list[tf.Tensor]:
    n = tf.strings.length(words, name="loops_n")
    total = tf.constant(0)
    mean = tf.constant(0.0)
    for step in tf.range(limit):
        total += tf.multiply(step, n[0], name="loops_product")
        mean += tf.divide(
            tf.cast(total, tf.float32, name="loops_total_cast"), 2.0, name="loops_halved"
        )
    if total > 3:
        chosen = tf.multiply(total, 2, name="loops_doubled")
    else:
        chosen = tf.multiply(n[1], 3, name="loops_tripled")
    return [mean, tf.cast(chosen, tf.float32, name="loops_chosen_cast")]


@tf.function
def drawn(words: tf.Tensor) -> list[tf.Tensor]:
    noise = tf.random.uniform([3], name="noise")
    ids = tf.random.uniform([2], 0, 9, tf.int32, name="ids")
    long = tf.random.uniform([80], name="long")
    hashed = tf.strings.to_hash_bucket_fast(words, 7, name="hashed")
    wide = tf.one_hot(hashed, 30, name="wide")
    narrow = tf.one_hot(hashed, 7, name="narrow")
    rows = tf.gather(matrix, hashed, name="rows")
    return [noise + 1.0, ids * 2, long, wide, narrow, rows]


@tf.function(experimental_attributes={"_noinline": True})
def apart(x: tf.Tensor) -> tf.Tensor:
    return tf.exp(tf.cast(x, tf.float32, name="apart_cast"), name="apart_exp")


@tf.function
def around_apart(words: tf.Tensor) -> tf.Tensor:
    return tf.negative(
        apart(tf.strings.length(words, name="around_apart_n")), name="around_apart_apart_negative"
    )


@tf.function
def tiny(words: tf.Tensor) -> tf.Tensor:
    return tf.strings.length(words, name="tiny_n")


def session(**options: object) -> None:
    config = tf.compat.v1.ConfigProto(allow_soft_placement=True)
    config.graph_options.rewrite_options.MergeFrom(rewriter_config_pb2.RewriterConfig(**options))
    with tf.Graph().as_default():
        fed = tf.compat.v1.placeholder(tf.int32, [3], name="fed")
        words = tf.compat.v1.placeholder(tf.string, [3], name="fed_words")
        known = tf.random.shuffle(tf.constant([1.0, 2.0, 3.0]), name="shuffled")
        outputs = [
            tf.square(known, name="session_square"),
            tf.multiply(fed, 2, name="session_mul"),
            tf.cast(tf.strings.length(words, name="session_n"), tf.float32, name="session_cast"),
        ]
        with tf.compat.v1.Session(config=config) as running:
            running.run(outputs, {fed: np.arange(3), words: ["a", "b", "c"]})


arguments(tf.ones([3]), tf.ones([300]), tf.constant([1, 2]))
lengths(few)
open_lengths(many)
shapes(tf.ones([4, 6, 3]))
around(few)
around_any(few)
loops(few, tf.constant(4))
drawn(few)
around_apart(few)
tiny(few)
session(pin_to_host_optimization=rewriter_config_pb2.RewriterConfig.ON)
