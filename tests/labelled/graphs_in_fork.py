"""Captures a script and writes its graphs to an events file: in the oracle's fork."""

from tests.labelled.captured_in_fork import capture as capture_alone


def capture(script: str, logdir: str, level: int, *arguments: str) -> None:
    """Capture a script as `captured_in_fork.capture` does, with a RunMetadata beside the trace."""
    import tensorflow as tf  # noqa: PLC0415 - in the fork, which has it

    writer = tf.summary.create_file_writer(logdir)
    tf.summary.trace_on(graph=True)
    capture_alone(script, logdir, level, *arguments)
    with tf.device("CPU"), writer.as_default():
        tf.summary.trace_export("graphs", step=0)


def capture_with_graph_defs(script: str, logdir: str, level: int, *arguments: str) -> None:
    """Capture a script, with the GraphDefs of its functions and sessions beside the trace.

    Keras' TensorBoard callback writes such a GraphDef, and `FileWriter` of TensorFlow 1.
    """
    from tensorflow.core.util.event_pb2 import Event  # noqa: PLC0415
    from tensorflow.python.framework import ops  # noqa: PLC0415
    from tensorflow.python.framework.func_graph import FuncGraph  # noqa: PLC0415
    from tensorflow.python.summary.writer.event_file_writer import EventFileWriter  # noqa: PLC0415

    graphs: list[ops.Graph] = []
    make = ops.Graph.__init__

    def make_and_keep(graph: ops.Graph) -> None:
        make(graph)
        graphs.append(graph)

    ops.Graph.__init__ = make_and_keep
    capture_alone(script, logdir, level, *arguments)
    writer = EventFileWriter(logdir)
    for graph in graphs:
        if (
            not isinstance(getattr(graph, "outer_graph", None), FuncGraph)
            and graph.get_operations()
        ):
            written = graph.as_graph_def(add_shapes=True).SerializeToString()
            writer.add_event(Event(graph_def=written, wall_time=0))
    writer.close()
