"""Decides whether input pipelines (tf.data) keep up, which stage is slow, and how to fix it."""
