"""Graphs of the program in files other than a capture file.

Keras' TensorBoard callback and `tf.summary` write two kinds into events files. A GraphDef has the
nodes of a function as Python traced them, and the functions that it calls. A RunMetadata also has,
for each function that ran, the partitions in which TensorFlow ran it (`FunctionGraphs`,
core/protobuf/config.proto). It does not name the functions.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.function_records import FunctionBody, Graph, Partition, partition_of
from traceanalyzer.capture_file.graph_def import AttributePool, parse_graph, parse_library
from traceanalyzer.format import printable
from traceanalyzer.trace.message import BrokenMessageError, Message, as_bytes
from traceanalyzer.trace.tfevents import recorded_graphs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traceanalyzer.trace.discovery import RunFiles
    from traceanalyzer.trace.tfevents import TfVersion

# Fields of RunMetadata and FunctionGraphs (config.proto).
_FUNCTION_GRAPHS: Final = 4
_PARTITIONS, _BEFORE = 1, 2
_OUTSIDE: Final = frozenset({"_Arg", "_DeviceArg", "_Retval", "_DeviceRetval"})


@dataclass(frozen=True, kw_only=True, eq=False)
class ProgramGraph:
    """The graph of a function or a session, as Python made it."""

    file: str  #: name of the file
    name: str = ""  #: of the function in that program; "" if unknown
    graph: Graph
    library: Mapping[str, FunctionBody] = field(default_factory=dict)  #: the functions it calls
    partitions: tuple[Partition, ...] = ()  #: what TensorFlow ran; empty if unknown


@dataclass(frozen=True, kw_only=True, eq=False)
class ProgramGraphs:
    """The graphs that were found for a run; those in files nearest in time come first."""

    graphs: tuple[ProgramGraph, ...]
    pool: AttributePool
    version: str | None  #: of the run's TensorFlow


def event_graphs(run: RunFiles, version: TfVersion | None) -> ProgramGraphs | None:
    """Read the graphs in the events files beside a run; None if there are none."""
    pool = AttributePool()
    graphs: list[ProgramGraph] = []
    for file, data, is_metadata in recorded_graphs(run):
        read = _of_metadata if is_metadata else _of_graph
        try:
            graphs += read(printable(file.name), data, pool)
        except BrokenMessageError:
            continue
    known = None if version is None else version.value
    return ProgramGraphs(graphs=tuple(graphs), pool=pool, version=known) if graphs else None


def _of_graph(file: str, data: memoryview, pool: AttributePool) -> Iterator[ProgramGraph]:
    """Yield the graph of a GraphDef, then each function of its library."""
    library = dict(parse_library(data, pool))
    yield ProgramGraph(
        file=file, graph=_with_arguments(parse_graph(data, pool), pool), library=library
    )
    for name, body in library.items():
        yield ProgramGraph(file=file, name=name, graph=body.graph, library=library)


def _with_arguments(graph: Graph, pool: AttributePool) -> Graph:
    """Return the graph of a function with the arguments that its placeholders stand for."""
    ops, attributes = list(graph.ops), list(graph.attributes)
    places = (at for at, op in enumerate(graph.ops) if op == "Placeholder")
    for index, at in enumerate(places):
        ops[at] = "_Arg"
        attributes[at] = pool.add({"T": pool.sets[attributes[at]].get("dtype"), "index": index})
    return replace(graph, ops=tuple(ops), attributes=tuple(attributes))


def _of_metadata(file: str, data: memoryview, pool: AttributePool) -> Iterator[ProgramGraph]:
    """Yield the graphs of a RunMetadata."""
    for function in map(Message, Message(data).every(_FUNCTION_GRAPHS)):
        before = [as_bytes(graph) for graph in function.every(_BEFORE)]
        partitions = tuple(
            partition_of(parse_graph(as_bytes(part), pool)) for part in function.every(_PARTITIONS)
        )
        graph = parse_graph(before[-1], pool) if before and partitions else None
        # TensorFlow also makes a function of a single eager op.
        if graph and sum(op not in _OUTSIDE for op in graph.ops) > 1:
            yield ProgramGraph(
                file=file,
                graph=graph,
                library=dict(parse_library(before[-1], pool)),
                partitions=partitions,
            )
