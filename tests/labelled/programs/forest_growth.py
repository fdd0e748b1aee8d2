"""How fast a forest grows in the long run: a stage model, and a trend through what was counted."""

from __future__ import annotations

import sys

import tensorflow as tf

FIXED = set(sys.argv[1:])
STAGES, YEARS = 5, 40

tf.random.set_seed(11)
survival = tf.random.uniform([STAGES - 1], 0.5, 0.9)
births = tf.random.uniform([STAGES], 0.1, 0.6)
spectrum = tf.linalg.eigvalsh if "spectrum" in FIXED else tf.linalg.eigvals


@tf.function
def growth(survival, births):
    ageing = tf.linalg.diag(survival, k=-1)
    ageing = ageing[:STAGES, :STAGES]
    transitions = tf.concat([births[None, :], ageing[1:, :]], axis=0)
    values = spectrum(transitions)  # cpu: Eig = no_gpu_kernel(spectrum)
    return tf.reduce_max(tf.abs(values))


@tf.function
def trend(years, counted):
    powers = tf.stack([tf.ones_like(years), years, years * years], axis=1)
    # cpu: MatrixSolveLs = no_gpu_kernel(orthogonal)
    return tf.linalg.lstsq(powers, counted[:, None], fast="orthogonal" in FIXED)


rate = growth(survival, births)
years = tf.linspace(0.0, 1.0, YEARS)
counted = 50.0 * tf.pow(rate, 4.0 * years)
counted += tf.random.normal([YEARS], stddev=0.5)
coefficients = trend(years, counted)
print(f"grows by {float(rate):.2f} a year; now {float(coefficients[0, 0]):.0f} trees")
