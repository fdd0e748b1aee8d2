"""The trace: when TensorFlow's profiler records, and the steps marked in it."""
