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
PHYSICAL = "/gpu:0" if tf.config.list_physical_devices("GPU") else "/cpu:0"
LAST = tf.config.list_logical_devices()[-1].name
OR_CPU = tf.test.gpu_device_name() or "/cpu:0"
LISTED = [d.name for d in device_lib.list_local_devices() if d.device_type == "GPU"] or ["/cpu:0"]
HOST = "/cpu:0"
FULL_NAME = "/job:localhost/replica:0/task:0/device:CPU:0"
x = tf.random.normal([16, 16])
trainer = Trainer(OR_CPU)


@tf.function
def step() -> tf.Tensor:
    with tf.device(pick()):
        a = tf.linalg.inv(x)
    with tf.device(HOST):
        b = tf.math.tanh(x)
    with tf.device(FULL_NAME):
        c = tf.cumsum(x)
    with tf.device(PHYSICAL):
        d = tf.linalg.det(x)
    return a + b + c + d


for _ in range(3):
    step()
    trainer.train()
    with tf.device(BY_NAME):
        tf.linalg.inv(x)
    with tf.device(pick()):
        tf.linalg.det(x)
    with tf.device(PHYSICAL):
        tf.math.atanh(x)
    with tf.device("/gpu:0" if tf.test.gpu_device_name() else "/cpu:0"):
        tf.math.atan(x)
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
            tf.math.asinh(x)
    with tf.device("/cpu:0"):
        tf.math.erfc(x)
    with tf.device(HOST):
        tf.math.cos(x)
    with tf.device(FULL_NAME):
        tf.math.sinh(x)
    with tf.device("/job:localhost/replica:0/task:0/device:CPU:0"):
        tf.math.cosh(x)
    with tf.device(tf.config.list_logical_devices("CPU")[0].name):
        tf.math.tan(x)
