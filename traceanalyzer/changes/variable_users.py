"""Finds values that a program combines with a variable: they need the variable's new dtype, too.

In a function's graph, values that depend on the variable get its new dtype, up to an op whose
result has another dtype, such as a comparison. The other inputs of these ops need a cast, except
for literals in the same line. For eager ops, only direct uses of the variable are known.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from traceanalyzer.capture_file.document import Attributes, CaptureFile, Frame, Signature
from traceanalyzer.capture_file.function_records import UNKNOWN, Graph
from traceanalyzer.model.changes import Place
from traceanalyzer.placement.calls import argument_nodes
from traceanalyzer.placement.kernel_types import definition_of
from traceanalyzer.placement.retyping import READS, attribute_at

_DTYPE: Final = "int32"


class VariableUse(NamedTuple):
    """An op that combines a variable with another value."""

    op: str  #: its type
    place: Place  #: the line that creates the op
    slot: int  #: the index of the input that is the other value
    made_at: Place | None  #: the line that creates the other value; None if unknown
    is_constant: bool = False  #: whether the other value is a constant that the op's line creates


def combinations(capture_files: Iterable[CaptureFile], made_at: Place) -> tuple[VariableUse, ...]:
    """Return the ops that combine other values with the int32 variable that a line creates."""
    found = (
        each
        for capture_file in capture_files
        for number, resource in enumerate(capture_file.resources)
        if resource.dtype == _DTYPE
        and resource.signature >= 0
        and _place(capture_file.frame(capture_file.signatures[resource.signature].frame)) == made_at
        for signature in capture_file.signatures
        for each in _of_signature(capture_file, signature, number)
        if each.place != made_at
    )
    return tuple(dict.fromkeys(found))


def _of_signature(
    capture_file: CaptureFile, signature: Signature, resource: int
) -> Iterator[VariableUse]:
    bound = [k for k, each in enumerate(signature.inputs) if each.resource == resource]
    if not bound:
        return
    if signature.is_function:
        function = capture_file.function(signature.op)
        for instance in () if function is None else function.instances:
            yield from _Uses(capture_file, signature.op, instance.input, bound).combinations()
        return
    place = _place(capture_file.frame(signature.frame))
    known = capture_file.attribute_set(signature.attributes)
    for slot, each in enumerate(signature.inputs):
        is_value = attribute_at(signature.op, known, slot) == "dtype"
        if place is not None and each.dtype == _DTYPE and is_value:
            yield VariableUse(signature.op, place, slot, None)


class _Uses:
    """The uses of a variable in the graph of a function."""

    def __init__(
        self, capture_file: CaptureFile, function: str, graph: Graph, bound: Sequence[int]
    ) -> None:
        self._capture_file = capture_file
        self._function = function
        self._graph = graph
        arguments = argument_nodes(graph, capture_file.attributes)
        self._handles = {arguments[at] for at in bound if at in arguments}

    def combinations(self) -> Iterator[VariableUse]:
        """Yield the ops that combine other values with the variable."""
        changed, users = self._changed()
        for node, name in users.items():
            op, place, known = self._graph.ops[node], self._line(node), self._known(node)
            for slot, (source, _) in enumerate(self._graph.sources(node)):
                is_other = attribute_at(op, known, slot) == name and source not in changed
                if place is not None and is_other:
                    made_at = self._line(source)
                    is_constant = self._graph.ops[source] == "Const" and made_at == place
                    yield VariableUse(op, place, slot, made_at, is_constant)

    def _changed(self) -> tuple[set[int], dict[int, str]]:
        """Return the nodes whose results change their dtype, and the users of those results.

        Each user maps to its attribute that is set to the variable's dtype.
        """
        takers: dict[int, list[int]] = {}
        for node in range(len(self._graph.ops)):
            for source, _ in self._graph.sources(node):
                takers.setdefault(source, []).append(node)
        changed, users, left = set(self._handles), dict[int, str](), list(self._handles)
        while left:
            source = left.pop()
            for node in takers.get(source, ()):
                name = self._shared(node, changed, is_handle=source in self._handles)
                if not name or node in users:
                    continue
                users[node] = name
                if self._gives(node, name):
                    changed.add(node)
                    left.append(node)
        return changed, users

    def _shared(self, node: int, changed: set[int], *, is_handle: bool) -> str:
        """Return the attribute of a node that is set to the variable's dtype, or ""."""
        known = self._known(node)
        names = (
            ["dtype"]
            if is_handle
            else [
                attribute_at(self._graph.ops[node], known, slot)
                for slot, (source, _) in enumerate(self._graph.sources(node))
                if source in changed
            ]
        )
        return next((name for name in names if name and known.get(name) == _DTYPE), "")

    def _gives(self, node: int, name: str) -> bool:
        """Return whether an attribute sets the dtype of the node's result."""
        op = self._graph.ops[node]
        definition = definition_of(op)
        outputs = () if definition is None else definition.outputs
        return op in READS or any(name in {o.type_attr, o.type_list_attr} for o in outputs)

    def _known(self, node: int) -> Attributes:
        return self._capture_file.attribute_set(self._graph.attributes[node])

    def _line(self, node: int) -> Place | None:
        if node == UNKNOWN:
            return None
        origin = self._graph.origin_functions[node] or self._function
        name = self._graph.origin_nodes[node] or self._graph.names[node]
        return _place(self._capture_file.frame_of_node(origin, name))


def _place(frame: Frame | None) -> Place | None:
    return None if frame is None or not frame.is_user else (frame.file, frame.line)
