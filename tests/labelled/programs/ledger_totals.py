"""Checks a ledger: eager arithmetic on a few numbers of each account, then a forecast of all."""
# run: TF_EAGER_ENABLE_SMALL_TENSOR_CPU_PINNING=1

from __future__ import annotations

import os
import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])
if "small_int_pinning" in FIXED:
    os.environ.pop("TF_EAGER_ENABLE_SMALL_TENSOR_CPU_PINNING", None)

trend = tf.ones([64, 64])
balance = tf.constant([0, 0, 0, 0], tf.int64)
for day in ([120, -30, 5, 0], [-80, 60, 11, 4], [9, 9, -200, 1]):
    booked = tf.constant(day, tf.int64)
    balance = balance + booked  # cpu: AddV2 = small_int_pinning
    # cpu: Less, ZerosLike = small_int_pinning
    overdrawn = tf.less(balance, tf.zeros_like(booked))
    # cpu: Maximum, Mul = small_int_pinning
    penalty = tf.maximum(balance * booked, booked)
    trend = tf.matmul(trend, trend) / tf.norm(trend)
print(balance.numpy(), overdrawn.numpy(), penalty.numpy(), trend.shape)
