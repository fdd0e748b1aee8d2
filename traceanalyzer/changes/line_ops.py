"""Finds the attributes of all ops that a line of the program creates, wherever they run."""

from collections.abc import Iterable, Iterator

from traceanalyzer.capture_file.document import CaptureFile, Json
from traceanalyzer.model.changes import Place


def attribute_values(
    capture_files: Iterable[CaptureFile], place: Place, op: str, attribute: str
) -> Iterator[Json]:
    """Yield the values of an attribute of the ops of a type that a line creates."""
    for capture_file in capture_files:
        for signature in capture_file.signatures:
            frame = capture_file.frame(signature.frame) if signature.op == op else None
            if frame is not None and (frame.file, frame.line) == place:
                yield capture_file.attribute_set(signature.attributes).get(attribute)
        for function in capture_file.functions:
            for instance in function.instances:
                graph = instance.input
                for node in (k for k, each in enumerate(graph.ops) if each == op):
                    origin = graph.origin_functions[node] or function.name
                    name = graph.origin_nodes[node] or graph.names[node]
                    frame = capture_file.frame_of_node(origin, name)
                    if frame is not None and (frame.file, frame.line) == place:
                        known = capture_file.attribute_set(graph.attributes[node])
                        yield known.get(attribute)
