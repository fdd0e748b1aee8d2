"""Judges input pipelines (tf.data): whether they keep up, which stage is slow, how to fix it."""
