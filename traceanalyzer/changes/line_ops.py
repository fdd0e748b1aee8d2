"""Finds ops that a line of the program creates, wherever they run."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from traceanalyzer.capture_file.document import CaptureFile, Json
from traceanalyzer.model.changes import Place
from traceanalyzer.run import Run

# In the names of ops that `tf.vectorized_map` runs in a loop, because it has no converter for an op
# (ops/parallel_for/pfor.py).
_LOOP: Final = "/pfor/while/"


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


def ops_in_loops(run: Run) -> Mapping[Place, list[str]]:
    """Return the ids of the ops that `tf.vectorized_map` runs in loops, by its line."""
    found: dict[Place, list[str]] = defaultdict(list)
    ops = run.ops[run.ops["source_line"].notna()]
    rows = ops[ops["name"].astype(str).str.contains(_LOOP, regex=False)]
    columns = rows["source_file"].astype(str), rows["source_line"].astype(int), rows["op_id"]
    for file, line, op_id in zip(*columns, strict=True):
        found[file, line].append(str(op_id))
    return found
