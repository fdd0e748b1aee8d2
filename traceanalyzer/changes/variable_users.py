"""Finds values that a program combines with a variable: they need the variable's new dtype, too.

In a function's graph, values that depend on the variable get its new dtype, up to an op whose
result has another dtype, such as a cast or a comparison. The other inputs of these ops have the
old dtype and need a cast, except for numbers in the same line, which Python converts.
Eager ops have no graph: only those that use the variable directly are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from traceanalyzer.capture_file.function_records import UNKNOWN
from traceanalyzer.placement.kernel_types import definition_of
from traceanalyzer.placement.retyping import READS, attribute_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from traceanalyzer.capture_file.document import Attributes, CaptureFile, Frame, Signature
    from traceanalyzer.capture_file.function_records import Graph
    from traceanalyzer.model.changes import Place

_DTYPE: Final = "int32"


class Combination(NamedTuple):
    """An op that combines a variable with another value."""

    op: str  #: its type
    place: Place  #: the line that creates the op
    slot: int  #: the index of the input that is the other value
    made_at: Place | None  #: the line that creates the other value; None if unknown
    is_constant: bool = False  #: whether the other value is a constant that the op's line creates


def combinations(capture_files: Iterable[CaptureFile], made_at: Place) -> tuple[Combination, ...]:
    """Return the ops that combine other values with the int32 variable that a line creates."""
    found = (
        each
        for capture_file in capture_files
        for number, resource in enumerate(capture_file.resources)
        if resource.dtype == _DTYPE
        and resource.signature >= 0
        and _place(capture_file.frame(capture_file.signatures[resource.signature].frame)) == made_at
        for each in _Uses(capture_file).of(number)
        if each.place != made_at
    )
    return tuple(dict.fromkeys(found))


class _Uses:
    """The uses of variables in one capture."""

    def __init__(self, capture_file: CaptureFile) -> None:
        self._capture_file = capture_file

    def of(self, resource: int) -> Iterator[Combination]:
        for signature in self._capture_file.signatures:
            bound = [k for k, each in enumerate(signature.inputs) if each.resource == resource]
            if bound and signature.is_function:
                yield from self._in_function(signature, bound)
            elif bound:
                yield from self._eager(signature)

    def _eager(self, signature: Signature) -> Iterator[Combination]:
        place = _place(self._capture_file.frame(signature.frame))
        known = self._capture_file.attribute_set(signature.attributes)
        for slot, each in enumerate(signature.inputs):
            is_value = attribute_at(signature.op, known, slot) == "dtype"
            if place is not None and each.dtype == _DTYPE and is_value:
                yield Combination(signature.op, place, slot, None)

    def _in_function(self, call: Signature, bound: list[int]) -> Iterator[Combination]:
        function = self._capture_file.function(call.op)
        for instance in () if function is None else function.instances:
            graph = instance.input
            handles = {
                node
                for node, op in enumerate(graph.ops)
                if op == "_Arg" and self._known(graph, node).get("index") in bound
            }
            yield from self._in_graph(call.op, graph, handles)

    def _in_graph(self, function: str, graph: Graph, handles: set[int]) -> Iterator[Combination]:
        """Walk the ops that combine other values with those of handles, in the graph's order."""
        changed, users = self._changed(graph, handles)
        for node, name in users.items():
            place, known = self._line(function, graph, node), self._known(graph, node)
            for slot, (source, _) in enumerate(graph.sources(node)):
                is_other = attribute_at(graph.ops[node], known, slot) == name
                if place is None or not is_other or source in changed:
                    continue
                made_at = self._line(function, graph, source)
                is_constant = graph.ops[source] == "Const" and made_at == place
                yield Combination(graph.ops[node], place, slot, made_at, is_constant)

    def _changed(self, graph: Graph, handles: set[int]) -> tuple[set[int], dict[int, str]]:
        """Return the nodes whose results get another dtype, and the nodes that take these results.

        The latter come with the attribute that gives the dtype.
        """
        takers: dict[int, list[int]] = {}
        for node in range(len(graph.ops)):
            for source, _ in graph.sources(node):
                takers.setdefault(source, []).append(node)
        changed, users, left = set(handles), dict[int, str](), list(handles)
        while left:
            source = left.pop()
            for node in takers.get(source, ()):
                name = self._shared(graph, node, changed, is_handle=source in handles)
                if not name or node in users:
                    continue
                users[node] = name
                if self._gives(graph, node, name):
                    changed.add(node)
                    left.append(node)
        return changed, users

    def _shared(self, graph: Graph, node: int, changed: set[int], *, is_handle: bool) -> str:
        """Return the attribute that gives the variable's dtype in an op that takes it, or ""."""
        op, known = graph.ops[node], self._known(graph, node)
        if is_handle:
            return "dtype" if known.get("dtype") == _DTYPE else ""
        names = (
            attribute_at(op, known, slot)
            for slot, (source, _) in enumerate(graph.sources(node))
            if source in changed
        )
        return next((name for name in names if name and known.get(name) == _DTYPE), "")

    def _gives(self, graph: Graph, node: int, name: str) -> bool:
        if graph.ops[node] in READS:
            return True
        definition = definition_of(graph.ops[node])
        outputs = () if definition is None else definition.outputs
        return any(name in {each.type_attr, each.type_list_attr} for each in outputs)

    def _known(self, graph: Graph, node: int) -> Attributes:
        return self._capture_file.attribute_set(graph.attributes[node])

    def _line(self, function: str, graph: Graph, node: int) -> Place | None:
        if node == UNKNOWN:
            return None
        origin = graph.origin_functions[node] or function
        name = graph.origin_nodes[node] or graph.names[node]
        return _place(self._capture_file.frame_of_node(origin, name))


def _place(frame: Frame | None) -> Place | None:
    return None if frame is None or not frame.is_user else (frame.file, frame.line)
