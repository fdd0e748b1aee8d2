"""A program requests the GPU where it finds one, in many ways, and the CPU besides."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.python.client import device_lib


def pick() -> str:
    found = tf.config.list_logical_devices("GPU")
    return found[0].name if found else "/cpu:0"


class Trainer:
    def __init__(self, device: str) -> None:
        self.device = device

    def train(self) -> None:
        with tf.device(self.device):
            tf.math.sin(x)


gpus = tf.config.list_logical_devices("GPU")
print(gpus)
BY_NAME = gpus[0].name if gpus else "/cpu:0"
BY_KIND = "/%s:0" % ("gpu" if tf.test.is_gpu_available() else "cpu")
LAST = tf.config.list_logical_devices()[-1].name
OR_CPU = tf.test.gpu_device_name() or "/cpu:0"
LISTED = [d.name for d in device_lib.list_local_devices() if d.device_type == "GPU"] or ["/cpu:0"]
HOST = "/cpu:0"
x = tf.random.normal([16, 16])
trainer = Trainer(OR_CPU)


@tf.function
def step() -> tf.Tensor:
    with tf.device(pick()):
        a = tf.linalg.inv(x)
    with tf.device(HOST):
        b = tf.math.tanh(x)
    return a + b


for _ in range(3):
    step()
    trainer.train()
    with tf.device(BY_NAME):
        tf.linalg.inv(x)
    with tf.device(pick()):
        tf.linalg.det(x)
    with tf.device(BY_KIND):
        tf.linalg.trace(x)
    with tf.device(LAST):
        tf.math.lgamma(x)
    with tf.device(OR_CPU):
        tf.math.erf(x)
    with tf.device(LISTED[0]):
        tf.math.digamma(x)
    if not gpus:
        with tf.device("/cpu:0"):
            tf.math.sinh(x)
    with tf.device("/cpu:0"):
        tf.math.erfc(x)
    with tf.device(HOST):
        tf.math.cos(x)
    with tf.device(tf.config.list_logical_devices("CPU")[0].name):
        tf.math.tan(x)
