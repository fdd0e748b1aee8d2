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
            yield from _in_graph(capture_file, signature.op, instance.input, bound)
        return
    place = _place(capture_file.frame(signature.frame))
    known = capture_file.attribute_set(signature.attributes)
    for slot, each in enumerate(signature.inputs):
        is_value = attribute_at(signature.op, known, slot) == "dtype"
        if place is not None and each.dtype == _DTYPE and is_value:
            yield VariableUse(signature.op, place, slot, None)


def _in_graph(
    capture_file: CaptureFile, function: str, graph: Graph, bound: Sequence[int]
) -> Iterator[VariableUse]:
    """Yield the ops of a function that combine other values with a variable."""

    def line(node: int) -> Place | None:
        if node == UNKNOWN:
            return None
        origin = graph.origin_functions[node] or function
        return _place(
            capture_file.frame_of_node(origin, graph.origin_nodes[node] or graph.names[node])
        )

    attributes = [capture_file.attribute_set(number) for number in graph.attributes]
    arguments = argument_nodes(graph, capture_file.attributes)
    handles = {arguments[at] for at in bound if at in arguments}
    changed, users = _changed(graph, attributes, handles)
    for node, name in users.items():
        op, place = graph.ops[node], line(node)
        for slot, (source, _) in enumerate(graph.sources(node)):
            is_other = attribute_at(op, attributes[node], slot) == name and source not in changed
            if place is not None and is_other:
                made_at = line(source)
                is_constant = graph.ops[source] == "Const" and made_at == place
                yield VariableUse(op, place, slot, made_at, is_constant)


def _changed(
    graph: Graph, attributes: Sequence[Attributes], handles: set[int]
) -> tuple[set[int], dict[int, str]]:
    """Return the nodes whose results change their dtype, and the users of those results.

    Each user maps to its attribute that is set to the variable's dtype.
    """
    takers: dict[int, list[int]] = {}
    for node in range(len(graph.ops)):
        for source, _ in graph.sources(node):
            takers.setdefault(source, []).append(node)
    changed, users, left = set(handles), dict[int, str](), list(handles)
    while left:
        source = left.pop()
        for node in takers.get(source, ()):
            op, known = graph.ops[node], attributes[node]
            slots = (k for k, (each, _) in enumerate(graph.sources(node)) if each in changed)
            names = ["dtype"] if source in handles else [attribute_at(op, known, k) for k in slots]
            name = next((name for name in names if name and known.get(name) == _DTYPE), "")
            if not name or node in users:
                continue
            users[node] = name
            if _gives(op, name):
                changed.add(node)
                left.append(node)
    return changed, users


def _gives(op: str, name: str) -> bool:
    """Return whether an attribute sets the dtype of an op's result."""
    definition = definition_of(op)
    outputs = () if definition is None else definition.outputs
    return op in READS or any(name in {o.type_attr, o.type_list_attr} for o in outputs)


def _place(frame: Frame | None) -> Place | None:
    return None if frame is None or not frame.is_user else (frame.file, frame.line)
