"""Captures a script and writes TensorFlow's graphs to an events file: in the oracle's fork."""

from tests.labelled.captured_in_fork import capture as capture_alone


def capture(script: str, logdir: str, level: int, *arguments: str) -> None:
    """Capture a script as `captured_in_fork.capture` does, with its graphs beside the trace."""
    import tensorflow as tf  # noqa: PLC0415 - in the fork, which has it

    writer = tf.summary.create_file_writer(logdir)
    tf.summary.trace_on(graph=True)
    capture_alone(script, logdir, level, *arguments)
    with tf.device("CPU"), writer.as_default():
        tf.summary.trace_export("graphs", step=0)
