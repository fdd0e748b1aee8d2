"""The functions in a capture file, as Python traced them and as the placer saw them."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Final

UNKNOWN: Final = -1  # an index that points to nothing
_MOST_DIGITS: Final = 9  # of an output's number, which is an int32


@dataclass(frozen=True, kw_only=True)
class Definition:
    """A function's nodes before inlining, with one entry per node in each column."""

    name: str  #: as in traces (`__inference_train_step_42`)
    nodes: tuple[str, ...]
    frames: tuple[int, ...]  #: the user's innermost frame
    #: The scopes around each node, the innermost first; None if not recorded.
    scopes: tuple[tuple[int, ...] | None, ...]
    #: The innermost frame of a library that the user's frame called; empty if not recorded.
    libraries: tuple[int, ...] = ()

    @cached_property
    def _positions(self) -> dict[str, int]:
        return positions(self.nodes)

    def index(self, node: str) -> int:
        """Return the position of a node in the columns, or -1."""
        return self._positions.get(node, UNKNOWN)


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The nodes of a graph, with one entry per node in each column, in TensorFlow's order."""

    names: tuple[str, ...]
    ops: tuple[str, ...]
    attributes: tuple[int, ...]  #: the set of each node; -1 if they were left out
    #: The function that each node was inlined from, and its name there; "" for its own nodes.
    origin_functions: tuple[str, ...]
    origin_nodes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def _positions(self) -> dict[str, int]:
        return positions(self.names)

    def index(self, node: str) -> int:
        """Return the position of a node in the columns, or -1."""
        return self._positions.get(node, UNKNOWN)


@dataclass(frozen=True, kw_only=True)
class Graph(Columns):
    """The placer's input (dump `before_placer`): an instantiated function, inlined and lowered."""

    inputs: tuple[tuple[str, ...], ...]  #: `node`, `node:1`, `^node` for a control edge
    devices: tuple[str, ...]  #: requested; for an `_Arg`, assigned
    producer: int = 0  #: GraphDef version of the TensorFlow that made the graph; 0 if unknown

    def sources(self, node: int) -> Iterator[tuple[int, int]]:
        """Yield the node index and output number of each data input in the graph."""
        for text in self.inputs[node]:
            name, output = split_input(text)
            at = self.index(name)  # -1 for a control edge, as no name contains ^
            if at != UNKNOWN:
                yield at, output


@dataclass(frozen=True, kw_only=True)
class FunctionBody:
    """A function from a graph's library, before the functions that it calls are inlined."""

    graph: Graph  #: its arguments (`_Arg`) come first
    results: tuple[str, ...] = ()  #: the outputs that it returns, as inputs of a node
    types: tuple[str, ...] = ()  #: their types
    is_inlined: bool = True  #: whether TensorFlow inlines it before it places a caller


@dataclass(frozen=True, kw_only=True)
class Partition(Columns):
    """The part of a function that ran on one device (the dump `after_partition_passes`)."""

    device: str


def partition_of(graph: Graph, device: str = "") -> Partition:
    """Return a graph as a `Partition` on its nodes' first known device, or else on `device`."""
    columns = {each.name: getattr(graph, each.name) for each in fields(Columns)}
    return Partition(device=next(filter(None, graph.devices), device), **columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One instantiation of a function: the placer's input and choices, and the partitions."""

    input: Graph
    assigned: tuple[str, ...]  #: the device that the placer chose for each node, "" if unknown
    partitions: tuple[Partition, ...]  #: empty if not dumped or left out


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function and its instantiations."""

    name: str  #: as in traces
    instances: tuple[Instance, ...]  #: in order of time; arguments on other devices make another


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedArgument:
    """An argument of a Python function, for which TensorFlow traced the function."""

    name: str
    #: `tensor`; `value`, a Python value that the graph contains; or `object`, any other.
    kind: str
    text: str  #: `float32[64,128]`, the value, or the class of the object


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracing:
    """One trace of a Python function."""

    name: str  #: of the graph that it made, as in traces
    number: int  #: how often functions of this code were traced so far, from 1
    object: int  #: the number of the `tf.function`; another one for each that the program makes
    code: str  #: name of the Python function
    file: str
    line: int  #: where the function is defined
    frame: int  #: the user's line that called it; -1 if unknown
    arguments: tuple[TracedArgument, ...] = ()

    @property
    def place(self) -> tuple[str, int, str]:
        """The place of the function's code."""
        return self.file, self.line, self.code


def split_input(text: str) -> tuple[str, int]:
    """Split a NodeDef's input into a node name (^name for a control edge) and an output number."""
    name, _, output = text.partition(":")
    return name, int(output) if output.isdecimal() and len(output) <= _MOST_DIGITS else 0


def positions(names: tuple[str, ...]) -> dict[str, int]:
    """Return the first index of each name."""
    last = len(names) - 1
    return {name: last - at for at, name in enumerate(reversed(names))}
