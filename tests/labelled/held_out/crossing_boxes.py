"""Watches a crossing: a small detector in half precision, and which of its boxes to keep."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])

tf.random.set_seed(4)
head = tf.cast(tf.random.stateless_normal([16, 5], (4, 2)) * 0.3, tf.float16)
frames = tf.random.stateless_uniform([3, 40, 16], (4, 3), dtype=tf.float16)


def detect(features):
    found = tf.matmul(features, head)
    scores = tf.sigmoid(found[:, 0])
    corners = tf.sort(tf.reshape(tf.sigmoid(found[:, 1:]), [-1, 2, 2]), axis=1)
    return tf.reshape(corners, [-1, 4]), scores


def keep(boxes, scores):
    if "dtype_unsupported" in FIXED:
        boxes, scores = tf.cast(boxes, tf.float32), tf.cast(scores, tf.float32)
    # cpu: NonMaxSuppressionV3 = dtype_unsupported
    return tf.image.non_max_suppression(boxes, scores, 10, iou_threshold=0.4)


kept = 0.0
for frame in tf.unstack(frames):
    boxes, scores = detect(frame)
    chosen = keep(boxes, scores)
    kept += float(tf.reduce_sum(tf.gather(scores, chosen)))
print(f"kept boxes of weight {kept:.2f}")
