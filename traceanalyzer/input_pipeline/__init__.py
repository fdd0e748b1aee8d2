"""Whether a run's input pipelines (tf.data) keep up with it, what is slow, and what helps."""
