"""Data about TensorFlow's kernels and ops, and a replay of its placer's decisions."""
