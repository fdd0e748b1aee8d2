"""TensorFlow's kernels and ops as data, and a replay of its placer's decisions."""
