"""Finds the copies between GPU and host memory that a placed graph makes in each call.

A kernel of a GPU can have arguments in host memory (`HostMemory` of its registration). If the op at
the other end of an edge has the value in GPU memory, TensorFlow copies it in each call, although
both ops are placed on the GPU (`AddCopy` and `_HostRecv`, core/graph/graph_partition.cc).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Final, NamedTuple

import networkx as nx

from traceanalyzer.capture_file.document import Attributes, Frame
from traceanalyzer.capture_file.function_records import Graph, Partition
from traceanalyzer.placement.devices import GPU, is_of_type
from traceanalyzer.placement.kernel_tables import AttributesError
from traceanalyzer.placement.kernel_types import all_on_host
from traceanalyzer.placement.nodes import ARGUMENTS, RESULTS
from traceanalyzer.placement.program import FunctionPlacement
from traceanalyzer.placement.registry import Registry

_INT32: Final = "int32"
_INT64: Final = "int64"
_INT32_BYTES: Final = 4
_ENDS: Final = frozenset({"_HostRecv", "_HostSend", "_Recv", "_Send"})
_FORWARDS: Final = frozenset(
    {"Enter", "Exit", "Identity", "IdentityN", "LoopCond", "Merge", "NextIteration", "Switch"}
)


class Copied(NamedTuple):
    """A value that is copied in each call."""

    source: str  #: the node that makes it
    target: str  #: the node that uses it
    bytes: int | None = None  #: None if its shape is unknown


@dataclass(frozen=True, kw_only=True)
class HostCopies:
    """The copies of one function, and the ops that the host computes between them."""

    function: str
    #: Ops placed on the GPU and computed on the host, between values from and for GPU memory.
    computed: tuple[str, ...] = ()
    types: tuple[str, ...] = ()  #: of these ops
    arriving: tuple[Copied, ...] = ()  #: from GPU memory to these ops
    leaving: tuple[Copied, ...] = ()  #: from these ops to GPU memory
    #: From the host to the GPU: tensors that the function has captured, and its constants.
    uploads: tuple[Copied, ...] = ()
    #: Whether the values come from tensors that the function has captured, and a GPU computes all
    #: of these ops, and those at the other ends, if they are int64.
    is_mended_by_int64: bool = False
    doubt: str = ""  #: why it is not certain, or ""
    frames: tuple[Frame, ...] = ()  #: the lines that made these ops
    is_of_library: bool = False  #: whether a library made any of them

    @property
    def nodes(self) -> frozenset[str]:
        """The nodes on the GPU that are concerned."""
        ends = (name for copy in self.arriving for name in (copy.source, copy.target))
        targets = (copy.target for copy in (*self.leaving, *self.uploads))
        return frozenset((*self.computed, *ends, *targets))


def copies_of(
    placed: FunctionPlacement,
    attributes: Sequence[Attributes],
    registry: Registry,
    partitions: Sequence[Partition] = (),
) -> HostCopies | None:
    """Return the copies of int32 values that a graph makes in each call, or None.

    If the graph's final partitions were recorded, only the copies that these contain count.
    """
    found = _Copying(placed.placement.nodes.graph, placed.placement.devices, attributes, registry)
    edges = found.edges()
    if partitions:
        seen = _sent(partitions, attributes)
        edges = [edge for edge in edges if found.graph.names[edge.source] in seen]
    computed = found.between(edges)
    names = found.graph.names

    def copied(edge: _Edge) -> Copied:
        return Copied(names[edge.source], names[edge.target], found.size(edge.source))

    uploads = [e for e in edges if e.is_upload and found.is_kept(e)]
    if not computed and not uploads:
        return None
    arriving = [e for e in edges if not e.is_upload and e.target in computed]
    leaving = [e for e in edges if e.is_upload and e.source in computed]
    concerned = {*computed, *(e.target for e in (*leaving, *uploads))}
    concerned |= {e.source for e in arriving}
    doubts = (placed.placement.doubts.get(node) for node in sorted(concerned))
    return HostCopies(
        function=placed.function,
        computed=tuple(names[node] for node in sorted(computed)),
        types=tuple(dict.fromkeys(found.graph.ops[node] for node in sorted(computed))),
        arriving=tuple(map(copied, arriving)),
        leaving=tuple(map(copied, leaving)),
        uploads=tuple(map(copied, uploads)),
        is_mended_by_int64=found.come_from(uploads, computed)
        and all(map(found.can_be_int64, concerned)),
        doubt=placed.doubt or next(filter(None, doubts), ""),
    )


class _Edge(NamedTuple):
    source: int
    target: int
    is_upload: bool


def _sent(partitions: Sequence[Partition], attributes: Sequence[Attributes]) -> set[str]:
    """Return the names of the nodes whose values the partitions send."""
    sets = {
        at for p in partitions for op, at in zip(p.ops, p.attributes, strict=True) if op in _ENDS
    }
    found = (attributes[at].get("_src") for at in sets if at >= 0)
    return {str(each["s"]) for each in found if isinstance(each, dict) and "s" in each}


@dataclass(eq=False)
class _Copying:
    """Which values of a placed graph are in host memory."""

    graph: Graph
    devices: Mapping[int, str]
    attributes: Sequence[Attributes]
    registry: Registry
    _known: dict[tuple[str, int], tuple[list[bool | None], list[bool | None]]] = field(
        default_factory=dict
    )

    def edges(self) -> list[_Edge]:
        """Return the edges between two kinds of memory, once for each value and target."""
        found: dict[_Edge, None] = {}
        for target in range(len(self.graph)):
            if self.graph.ops[target] in RESULTS:
                continue
            for slot, (source, number) in enumerate(self.graph.sources(target)):
                made = _at(self._memory(source)[1], number)
                used = _at(self._memory(target)[0], slot)
                is_on_gpu = is_of_type(self.devices[target], GPU)
                if None not in {made, used} and made != used and is_on_gpu:
                    found[_Edge(source, target, bool(made))] = None
        return list(found)

    def between(self, edges: Sequence[_Edge]) -> set[int]:
        """Return the host's ops on a way from one copy out of GPU memory to another into it."""
        first = {edge.target for edge in edges if not edge.is_upload}
        last = {edge.source for edge in edges if edge.is_upload}
        inside = [at for at in range(len(self.graph)) if self._is_on_host(at)]
        flow: nx.DiGraph[int] = nx.DiGraph()
        flow.add_nodes_from(inside)
        flow.add_edges_from(
            (source, at) for at in inside for source, _ in self.graph.sources(at) if source in flow
        )
        after = set().union(*({n, *nx.descendants(flow, n)} for n in first if n in flow))
        before = set().union(*({n, *nx.ancestors(flow, n)} for n in last if n in flow))
        return {at for at in after & before if self.graph.ops[at] not in _FORWARDS}

    def come_from(self, uploads: Sequence[_Edge], nodes: set[int]) -> bool:
        """Return whether nodes use captured tensors, directly or through other nodes."""
        captured = {e.source for e in uploads if self.graph.ops[e.source] in ARGUMENTS}
        left, seen = [*nodes], {*nodes}
        while left:
            new = {source for source, _ in self.graph.sources(left.pop())} - seen
            seen |= new
            left += new
        return not seen.isdisjoint(captured)

    def is_kept(self, edge: _Edge) -> bool:
        """Return whether a value is the same in each call: a constant, or a captured tensor.

        TensorFlow computes an op whose inputs are all constant only once.
        """
        node = edge.source
        if self.graph.ops[node] == "Const":
            sources = (source for source, _ in self.graph.sources(edge.target))
            return any(self.graph.ops[source] != "Const" for source in sources)
        known = self._attributes(node)
        if self.graph.ops[node] not in ARGUMENTS or known.get("T") != _INT32:
            return False
        given = known.get("_user_specified_name")  # of a captured tensor, that of the op's input
        name = given.get("s") if isinstance(given, dict) else None
        return not (isinstance(name, str) and name and self.graph.names[node].startswith(name))

    def size(self, node: int) -> int | None:
        """Return the size of an argument or a constant in bytes, or None if unknown."""
        shapes = self._attributes(node).get("_output_shapes")
        first = shapes[0] if isinstance(shapes, list) and shapes else None
        sizes = first.get("shape") if isinstance(first, dict) else None
        known = (
            [n for n in sizes if isinstance(n, int) and n >= 0] if isinstance(sizes, list) else []
        )
        is_whole = isinstance(sizes, list) and len(known) == len(sizes)
        return _INT32_BYTES * prod(known) if is_whole else None

    def can_be_int64(self, node: int) -> bool:
        """Return whether a GPU computes a node if its int32 values are int64."""
        op, known = self.graph.ops[node], self._attributes(node)
        if op in ARGUMENTS or op == "Const" or not is_of_type(self.devices[node], GPU):
            return True
        wide = {name: _INT64 if value == _INT32 else value for name, value in known.items()}
        definition, kernel = self.registry.definition(op), self.registry.find(op, GPU, wide)
        if definition is None or kernel is None:
            return False
        return not all_on_host(kernel, definition, definition.complete(wide))

    def _attributes(self, node: int) -> Attributes:
        at = self.graph.attributes[node]
        return self.attributes[at] if at >= 0 else {}

    def _is_on_host(self, node: int) -> bool:
        made = self._memory(node)[1]
        return is_of_type(self.devices[node], GPU) and bool(made) and all(m is True for m in made)

    def _memory(self, node: int) -> tuple[list[bool | None], list[bool | None]]:
        """Return whether inputs and outputs are in host memory; None for other than int32."""
        is_on_gpu = is_of_type(self.devices[node], GPU)
        key = (f"{self.graph.ops[node]} {is_on_gpu}", self.graph.attributes[node])
        if key not in self._known:
            self._known[key] = tuple(self._sides(node, is_on_gpu))  # type: ignore[assignment]
        return self._known[key]

    def _sides(self, node: int, is_on_gpu: bool) -> Iterator[list[bool | None]]:  # noqa: FBT001
        op, known = self.graph.ops[node], self._attributes(node)
        definition = self.registry.definition(op)
        kernel = self.registry.find(op, GPU, known) if is_on_gpu else None
        is_known = definition is not None and (kernel is not None or not is_on_gpu)
        for side in ("inputs", "outputs"):
            memory: list[bool | None] = []
            for argument in getattr(definition, side) if is_known else ():
                try:
                    types = definition.types_of(argument, known)  # type: ignore[union-attr]
                except AttributesError:
                    break
                is_host = kernel is None or argument.name in kernel.host_memory_args
                memory += [is_host if t == _INT32 else None for t in types]
            yield memory


def _at(memory: Sequence[bool | None], index: int) -> bool | None:
    return memory[index] if index < len(memory) else None
