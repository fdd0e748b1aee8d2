"""Matches a trace's functions with the program's graphs, and makes a `CaptureFile` of the graphs.

A function is recognized by its ops, which have the names of the graph's nodes. A graph can come
from another call of the function or another run of the program, so it proves no placement. The
partitions in a RunMetadata show where nodes ran. For other graphs, only the trace does.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final, NamedTuple

from traceanalyzer.capture_file.document import Attributes, CaptureFile, CaptureNote, Scope
from traceanalyzer.capture_file.function_records import (
    UNKNOWN,
    Definition,
    Function,
    Graph,
    Instance,
)
from traceanalyzer.capture_file.graph_files import ProgramGraph, ProgramGraphs
from traceanalyzer.format import counted, listed
from traceanalyzer.placement.by_registry import original
from traceanalyzer.placement.lowering import Lowered, Lowering
from traceanalyzer.placement.nodes import ARGUMENTS, RESULTS, describe
from traceanalyzer.placement.registry import nearest
from traceanalyzer.tables.graph_nodes import base_names

# Grappler can move small tensors after the placer, mostly integers (pin_to_host_optimizer.cc; it is
# off by default). The graphs do not show it, so the placer's choice for such ops is unknown.
_MAY_BE_PINNED: Final = frozenset({"int32", "int64"})
_LEAST_SHARE: Final = 0.9  # of a function's ops that a graph must have
_FEW_OPS: Final = 2  # so few ops may have the names of another function's
_FULL: Final = "/job:"  # a device by its full name
_NUMBERED: Final = re.compile(r"/_\d+(?=/|$)")  # the call of an inlined function


class TracedOp(NamedTuple):
    """An op that a function of the trace ran."""

    name: str
    type: str
    device: str  #: full name of the device that ran it; "" if unknown


class GraphFinder:
    """Finds graphs for the functions of a trace."""

    def __init__(self, graphs: ProgramGraphs) -> None:
        self._graphs = graphs.graphs
        self._pool = graphs.pool
        self._version = None if graphs.version is None else graphs.version.value
        self._registry = nearest(self._version).registry
        self._types_of: dict[int, Mapping[str, set[str]]] = {}

    def of_functions(
        self, functions: Mapping[str, Sequence[TracedOp]], devices: Collection[str]
    ) -> CaptureFile:
        """Return a capture file with those functions of a trace that have a graph.

        `functions` are the ops that each function ran. `devices` are full names.
        """
        found = {name: self._matching(name, ops) for name, ops in functions.items()}
        found = {name: graphs for name, graphs in found.items() if graphs}
        # Few ops can have the names of another program's.
        is_enough = any(len(functions[name]) > _FEW_OPS for name in found)
        if not is_enough and len(found) < len(functions):
            found = {}
        requests: dict[str, dict[str, str]] = defaultdict(dict)
        recorded = []
        for name, graphs in found.items():
            instances = []
            for graph in graphs:
                nodes = self._lowered(graph, _numbered(graph, functions[name]))
                instances.append(self._instance(graph, nodes.graph, functions[name]))
                requests[name].update(nodes.requests)
                for origin in {*nodes.graph.origin_functions} - {""}:
                    requests[origin].update(_requests(graph.library[origin].graph))
            recorded.append(Function(name=name, instances=tuple(instances)))
        used = {part.device for f in recorded for i in f.instances for part in i.partitions}
        used |= {op.device for ops in functions.values() for op in ops if op.device}
        scopes = sorted({device for of_nodes in requests.values() for device in of_nodes.values()})
        return CaptureFile(
            tool="",
            host="",
            complete=False,
            environment={"tensorflow": {"version": self._version}} if self._version else None,
            devices={"logical": [{"name": name} for name in sorted({*devices, *used})]},
            scopes=tuple(Scope(device=device, frame=UNKNOWN) for device in scopes),
            attributes=tuple(self._pool.sets),
            definitions=tuple(
                Definition(
                    name=name,
                    nodes=tuple(of_nodes),
                    frames=(UNKNOWN,) * len(of_nodes),
                    scopes=tuple((scopes.index(device),) for device in of_nodes.values()),
                )
                for name, of_nodes in requests.items()
                if of_nodes
            ),
            functions=tuple(recorded),
            omitted={"functions": 1},  # those that no graph shows
            notes=(self._note(found, functions),),
        )

    def _note(
        self,
        found: Mapping[str, Sequence[ProgramGraph]],
        functions: Mapping[str, Sequence[TracedOp]],
    ) -> CaptureNote:
        used = [graph for graphs in found.values() for graph in graphs]
        files = listed(list(dict.fromkeys(graph.file for graph in used or self._graphs)))
        ops = sum(map(len, functions.values()))
        matching = sum(self._count(graphs[0], functions[name]) for name, graphs in found.items())
        if not found:
            known = {name for graph in self._graphs for name in graph.graph.names}
            matching = sum(op.name in known for each in functions.values() for op in each)
        share = f"matching op names: {matching:,} of {ops:,}"
        if not found:
            message = f"no graph in {files} fits this trace ({share}), so none is used"
            return CaptureNote(id="unfitting_graphs", severity="info", message=message)
        number = f"{len(found)} of {counted(len(functions), 'function')}"
        message = (
            f"found graphs of {number} in {files} ({share}); "
            "they may belong to other calls, so no answer from them is certain"
        )
        return CaptureNote(id="program_graphs", severity="info", message=message)

    def _matching(self, function: str, ops: Sequence[TracedOp]) -> list[ProgramGraph]:
        """Return the graph of a function, or several if the trace shows too few ops to choose."""
        is_enough = (1.0 if len(ops) <= _FEW_OPS else _LEAST_SHARE) * len(ops)
        matching = [graph for graph in self._graphs if self._count(graph, ops) >= is_enough]
        # The graphs nearest in time, and of these the ones that say most.
        matching = [graph for graph in matching if graph.file == matching[0].file]
        for is_better in (lambda g: g.name == function, lambda g: bool(g.partitions)):
            matching = [*filter(is_better, matching)] or matching
        if len(ops) <= _FEW_OPS:
            return matching
        return [min(matching, key=lambda graph: len(self._types(graph)))] if matching else []

    def _count(self, graph: ProgramGraph, ops: Sequence[TracedOp]) -> int:
        own = {*graph.graph.names, *(name for part in graph.partitions for name in part.names)}
        if sum(not own.isdisjoint(_callers(op.name)) for op in ops) < _LEAST_SHARE * len(ops):
            return 0  # even with the functions that it calls
        nodes = self._types(graph)
        if len(ops) <= _FEW_OPS:
            return sum(
                not nodes.get(_unnumbered(op.name), set()).isdisjoint(_types_before(op.type))
                for op in ops
            )
        return sum(
            any(_unnumbered(name) in nodes for name in (op.name, *base_names(op.name)))
            for op in ops
        )

    def _types(self, graph: ProgramGraph) -> Mapping[str, set[str]]:
        """Return the types of a graph's nodes, by node name without call numbers."""
        if id(graph) not in self._types_of:
            found: dict[str, set[str]] = defaultdict(set)
            for each in (self._lowered(graph).graph, *graph.partitions):
                for name, op in zip(each.names, each.ops, strict=True):
                    found[_unnumbered(name)].add(op)
            self._types_of[id(graph)] = found
        return self._types_of[id(graph)]

    def _lowered(self, graph: ProgramGraph, numbered: Mapping[str, str] | None = None) -> Lowered:
        lowering = Lowering(
            library=graph.library,
            pool=self._pool,
            registry=self._registry,
            numbered=numbered or {},
        )
        return lowering.lower(graph.graph)

    def _instance(self, graph: ProgramGraph, nodes: Graph, ops: Sequence[TracedOp]) -> Instance:
        sets = [self._pool.sets[at] for at in nodes.attributes]
        if graph.partitions:
            device_of = {name: part.device for part in graph.partitions for name in part.names}
            is_called_there = self._prefers_gpu(nodes, device_of)
            assigned = [
                ""
                if is_called_there and _may_be_pinned(own) and "CPU" in device_of.get(name, "")
                else device_of.get(name, "")
                for name, own in zip(nodes.names, sets, strict=True)
            ]
        else:
            seen = {op.name: op.device for op in ops}
            assigned = [seen.get(name, "") for name in nodes.names]
            for at, device in self._arguments(nodes, assigned):
                assigned[at] = device
        # A placed argument or result shows its device instead of a request, as in a capture.
        bound = ARGUMENTS | RESULTS
        devices = tuple(
            device if op in bound else requested
            for op, device, requested in zip(nodes.ops, assigned, nodes.devices, strict=True)
        )
        return Instance(
            input=replace(nodes, devices=devices),
            assigned=tuple(assigned),
            partitions=graph.partitions,
        )

    def _prefers_gpu(self, nodes: Graph, device_of: Mapping[str, str]) -> bool:
        """Return whether any node ran on a GPU only because that was the call's default device."""
        facts = describe(nodes, self._pool.sets, self._registry)
        bound = {*facts.generators, *facts.followers, *facts.classes, *chain(*facts.bound)}
        return any(
            "GPU" in device_of.get(name, "") and not requested and at not in bound
            for at, (name, op, requested) in enumerate(
                zip(nodes.names, nodes.ops, nodes.devices, strict=True)
            )
            if op not in ARGUMENTS | RESULTS
        )

    def _arguments(self, nodes: Graph, assigned: Sequence[str]) -> Iterator[tuple[int, str]]:
        """Yield the arguments that are resources, each with the device of the ops that use it."""
        roots = list(range(len(nodes)))

        def root(at: int) -> int:
            while roots[at] != at:
                roots[at] = at = roots[roots[at]]
            return at

        for source, target in describe(nodes, self._pool.sets, self._registry).bound:
            roots[root(target)] = root(source)
        used: dict[int, set[str]] = defaultdict(set)
        requested: dict[int, set[str]] = defaultdict(set)
        for at, (device, request) in enumerate(zip(assigned, nodes.devices, strict=True)):
            if device:
                used[root(at)].add(device)
            if request.startswith(_FULL):
                # An optimizer requests the device of the variable that it updates.
                requested[root(at)].add(request)
        for at, op in enumerate(nodes.ops):
            found = (used[root(at)] or requested[root(at)]) if op in ARGUMENTS else ()
            if len(found) == 1:
                yield at, next(iter(found))


def _callers(name: str) -> Iterator[str]:
    """Yield the names that an op, or a call that it was inlined from, may have in a graph."""
    for each in (name, *base_names(name)):
        words = each.split("/")
        yield from ("/".join(words[:length]) for length in range(len(words), 0, -1))


def _numbered(graph: ProgramGraph, ops: Sequence[TracedOp]) -> Mapping[str, str]:
    """Return the names of inlined calls, keyed by the same names without their numbers."""
    ran = (name for part in graph.partitions for name in part.names)
    named = sorted({path for name in (*ran, *(op.name for op in ops)) for path in _callers(name)})
    return {_unnumbered(path): path for path in named if "/_" in path}


def _requests(graph: Graph) -> Iterator[tuple[str, str]]:
    for name, op, device in zip(graph.names, graph.ops, graph.devices, strict=True):
        if device and op not in ARGUMENTS:
            yield name, device


def _unnumbered(name: str) -> str:
    return _NUMBERED.sub("/_", name)


def _types_before(op_type: str) -> tuple[str, ...]:
    """Return the types that the node of an op may have, also from before TensorFlow's rewrites."""
    rewritten = original(op_type)
    return (op_type,) if rewritten is None else (op_type, *rewritten.ops)


def _may_be_pinned(attributes: Attributes) -> bool:
    types = {value for value in attributes.values() if isinstance(value, str)}
    return bool(types) and types <= _MAY_BE_PINNED
