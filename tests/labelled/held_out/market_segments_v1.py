"""Finds segments of customers by k-means, in a session of old."""
# run: clean

from __future__ import annotations

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()

rng = np.random.default_rng(44)
people = np.concatenate([rng.normal(c, 0.3, (30, 5)) for c in (-1, 0, 1)]).astype("float32")

rows = v1.placeholder(tf.float32, [90, 5])
centres = v1.get_variable("centres", initializer=people[::30].copy(), use_resource=True)
away = tf.reduce_sum(tf.square(rows[:, None] - centres[None]), axis=2)
member = tf.one_hot(tf.argmin(away, axis=1), 3)
counts = tf.reduce_sum(member, axis=0)[:, None] + 1e-3
moved = centres.assign(tf.matmul(member, rows, transpose_a=True) / counts)
spread = tf.reduce_mean(tf.reduce_min(away, axis=1))

with v1.Session() as session:
    session.run(v1.global_variables_initializer())
    for _ in range(5):
        value, _ = session.run([spread, moved], {rows: people})
print(f"spread {value:.4f}")
