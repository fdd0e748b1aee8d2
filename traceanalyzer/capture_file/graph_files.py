"""Reads graphs of the program from files other than a capture file.

Keras' TensorBoard callback and `tf.summary` write two kinds of graphs into events files. A GraphDef
has the nodes of a function as Python traced them, and the functions that it calls. A RunMetadata
also has, for each function that ran, the partitions in which TensorFlow ran it (`FunctionGraphs`,
core/protobuf/config.proto). It does not name the functions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np

from traceanalyzer.capture_file.function_records import FunctionBody, Graph, Partition, partition_of
from traceanalyzer.capture_file.graph_def import AttributePool, parse_graph, parse_library
from traceanalyzer.errors import GraphFileError, TraceFormatError
from traceanalyzer.format import printable, size_text
from traceanalyzer.trace.discovery import RunFiles
from traceanalyzer.trace.message import BrokenMessageError, Message, as_bytes
from traceanalyzer.trace.tfevents import VersionSighting, recorded_graphs, version_of_producer

# Fields of RunMetadata and FunctionGraphs (config.proto).
_FUNCTION_GRAPHS: Final = 4
_PARTITIONS, _BEFORE = 1, 2
_META_GRAPHS, _GRAPH_DEF = 2, 2  # fields of SavedModel and MetaGraphDef
_MOST_BYTES: Final = 2 << 30  # protobuf's limit
_EXPECTED: Final = (
    "give a SavedModel, a GraphDef (`tf.io.write_graph(..., as_text=False)`), or a RunMetadata"
)
_OUTSIDE: Final = frozenset({"_Arg", "_DeviceArg", "_Retval", "_DeviceRetval"})


@dataclass(frozen=True, kw_only=True, eq=False)
class ProgramGraph:
    """The graph of a function or a session, as Python built it."""

    file: str  #: name of the file
    name: str = ""  #: of the function in that program; "" if unknown
    graph: Graph
    library: Mapping[str, FunctionBody] = field(default_factory=dict)  #: the functions it calls
    partitions: tuple[Partition, ...] = ()  #: what TensorFlow ran; empty if unknown


@dataclass(frozen=True, kw_only=True, eq=False)
class ProgramGraphs:
    """The graphs found for a run, sorted by how close in time their files are to the run."""

    graphs: tuple[ProgramGraph, ...]
    pool: AttributePool
    version: VersionSighting | None  #: of the program's TensorFlow


def event_graphs(run: RunFiles, version: VersionSighting | None) -> ProgramGraphs | None:
    """Read the graphs in the events files beside a run; return None if there are no graphs."""
    pool = AttributePool()
    graphs: list[ProgramGraph] = []
    for file, data, is_metadata in recorded_graphs(run):
        read = _of_metadata if is_metadata else _of_graph
        try:
            graphs += read(printable(file.name), data, pool)
        except BrokenMessageError:
            continue
    return ProgramGraphs(graphs=tuple(graphs), pool=pool, version=version) if graphs else None


def read_graphs(paths: Sequence[str | Path]) -> ProgramGraphs:
    """Read the graphs in files that the user names.

    Raises:
        GraphFileError: A file is missing, too large, or has no graph.
    """
    pool = AttributePool()
    graphs: list[ProgramGraph] = []
    for path in map(Path, paths):
        name = printable(path.name)
        try:
            for data, is_metadata in _serialized(_content(path)):
                graphs += (_of_metadata if is_metadata else _of_graph)(name, data, pool)
        except BrokenMessageError as error:
            what = "the file is cut short" if error.cut_short else "this is not a graph"
            msg = f"{name}: {what}; {_EXPECTED}"
            raise GraphFileError(msg) from error
        except (OSError, TraceFormatError) as error:
            why = getattr(error, "strerror", None) or str(error)
            msg = f"{name}: {why.lower()}; {_EXPECTED}"
            raise GraphFileError(msg) from error
        if not any(len(graph.graph) for graph in graphs if graph.file == name):
            msg = f"{name}: contains no graph; {_EXPECTED}"
            raise GraphFileError(msg)
    version = None
    if producer := next((p for graph in graphs if (p := graph.graph.producer)), 0):
        source = f"GraphDef producer {producer} in {graphs[0].file}"
        version = VersionSighting(value=version_of_producer(producer), source=source)
    return ProgramGraphs(graphs=tuple(graphs), pool=pool, version=version)


def _content(path: Path) -> memoryview:
    """Return the bytes of a graph file or SavedModel folder, memory-mapped."""
    if path.is_dir():
        path /= "saved_model.pb"
    if path.stat().st_size > _MOST_BYTES:
        msg = f"more than {size_text(_MOST_BYTES)}"
        raise TraceFormatError(msg)
    return np.memmap(path, np.uint8, mode="r").data if path.stat().st_size else memoryview(b"")


def _serialized(data: memoryview) -> Iterator[tuple[memoryview, bool]]:
    """Yield each GraphDef or RunMetadata in a file, and whether it is a RunMetadata."""
    root = _root(Message(data))
    if root == "SavedModel":
        for meta_graph in map(Message, Message(data).every(_META_GRAPHS)):
            yield from ((as_bytes(graph), False) for graph in meta_graph.every(_GRAPH_DEF))
    else:
        yield data, root == "RunMetadata"


def _root(message: Message) -> str:
    """Return the type of a message: SavedModel, RunMetadata, or GraphDef.

    Raises:
        BrokenMessageError: The message does not contain a graph.
    """
    first, fourth = ((*message.every(field), b"")[0] for field in (1, _FUNCTION_GRAPHS))
    if isinstance(first, int):
        return "SavedModel"
    of_fourth = Message(fourth)
    if any(isinstance(v, memoryview) for v in of_fourth.every(_BEFORE)):
        return "RunMetadata"
    node = Message(first)
    if not (node.text(1) and node.text(2)):
        raise BrokenMessageError
    return "GraphDef"


def _of_graph(file: str, data: memoryview, pool: AttributePool) -> Iterator[ProgramGraph]:
    """Yield the graph of a GraphDef, then each function of its library."""
    library = dict(parse_library(data, pool))
    yield ProgramGraph(
        file=file, graph=_with_arguments(parse_graph(data, pool), pool), library=library
    )
    for name, body in library.items():
        yield ProgramGraph(file=file, name=name, graph=body.graph, library=library)


def _with_arguments(graph: Graph, pool: AttributePool) -> Graph:
    """Return a graph whose placeholders are replaced by function arguments (`_Arg`)."""
    ops, attributes = list(graph.ops), list(graph.attributes)
    places = (at for at, op in enumerate(graph.ops) if op == "Placeholder")
    for index, at in enumerate(places):
        ops[at] = "_Arg"
        attributes[at] = pool.add({"T": pool.sets[attributes[at]].get("dtype"), "index": index})
    return replace(graph, ops=tuple(ops), attributes=tuple(attributes))


def _of_metadata(file: str, data: memoryview, pool: AttributePool) -> Iterator[ProgramGraph]:
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
