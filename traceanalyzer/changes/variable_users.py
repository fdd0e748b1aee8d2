"""Finds what else must change if a variable gets another dtype, and whether all of it is known.

In a function's graph, values that depend on the variable get its new dtype, up to an op whose
result has another dtype, such as a comparison. The other inputs of these ops need a cast, except
for literals in the same line. For eager ops, only direct uses of the variable are known: if its
value is read there, no other eager op may combine values of its dtype.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from traceanalyzer.capture_file.document import (
    Attributes,
    CaptureFile,
    Frame,
    Signature,
    is_below,
)
from traceanalyzer.capture_file.function_records import UNKNOWN, Graph
from traceanalyzer.model.changes import Place
from traceanalyzer.placement.calls import argument_nodes
from traceanalyzer.placement.devices import CPU, GPU
from traceanalyzer.placement.kernel_types import definition_of
from traceanalyzer.placement.nodes import RESULTS
from traceanalyzer.placement.registry import registries
from traceanalyzer.placement.retyping import READS, attribute_at

_DTYPE: Final = "int32"
# Ops that use a variable, but not its value.
_WITHOUT_VALUE: Final = frozenset(
    {"DestroyResourceOp", "VarHandleOp", "VarIsInitializedOp", "VariableShape"}
)
# Instead of an attribute: the op hands the variable on, or does not use its value.
_HANDLE: Final = "a handle"
_NOTHING: Final = "nothing"
_KERAS: Final = "keras/src/backend/"  # its operations and variables
_RESTORE: Final = frozenset({"Restore", "RestoreSlice", "RestoreV2"})


class VariableUse(NamedTuple):
    """An op that combines a variable with another value."""

    op: str  #: its type
    place: Place  #: the line that creates the op
    slot: int  #: the index of the input that is the other value
    made_at: Place | None  #: the line that creates the other value; None if unknown
    is_constant: bool = False  #: whether the other value is a constant that the op's line creates


@dataclass
class Uses:
    """The uses of a variable that matter if its dtype changes."""

    combined: dict[VariableUse, None] = field(default_factory=dict)  #: in order
    #: Whether every op that gets a value of the new dtype is known and has a kernel for it.
    are_known: bool = True


def uses_of(capture_files: Iterable[CaptureFile], made_at: Place, new: str) -> Uses:
    """Return the uses of the int32 variable that a line creates, if it becomes `new`."""
    found, dtypes = Uses(), set[str]()
    for capture_file in capture_files:
        walk = _Walk(capture_file, new, made_at, found)
        dtypes |= walk.resources() | walk.session_graphs()
        if walk.reaches_eager and _combines(capture_file, made_at):
            found.are_known = False
    found.are_known &= dtypes == {_DTYPE}  # the line may make other variables
    return found


def _combines(capture_file: CaptureFile, made_at: Place) -> bool:
    """Return whether an eager op or call may need its inputs to be of the variable's old dtype."""
    for signature in capture_file.signatures:
        given = [  # a Python value has no device: TensorFlow converts it
            slot
            for slot, each in enumerate(signature.inputs)
            if each.dtype == _DTYPE and each.device and each.resource is None
        ]
        known = capture_file.attribute_set(signature.attributes)
        names = Counter(attribute_at(signature.op, known, slot) for slot in given)
        writes = bool(given) and signature.inputs[0].dtype == "resource"
        is_tied = signature.is_function or writes or names[""] or max(names.values(), default=0) > 1
        is_own = _place(capture_file.frame(signature.frame)) == made_at
        if signature.op in _RESTORE or (given and is_tied and not is_own):
            return True
    return False


class _Walk:
    """Follows a variable through the ops of a program."""

    def __init__(self, capture_file: CaptureFile, new: str, made_at: Place, found: Uses) -> None:
        self._file, self._new, self._made_at, self._found = capture_file, new, made_at, found
        self.reaches_eager = False

    def resources(self) -> set[str]:
        """Add the uses of the line's resources; return their dtypes."""
        dtypes = set[str]()
        for number, resource in enumerate(self._file.resources):
            made_by = resource.signature
            made_at = None if made_by == UNKNOWN else self._file.signatures[made_by].frame
            if made_at is not None and _place(self._file.frame(made_at)) == self._made_at:
                dtypes.add(resource.dtype)
                for signature in self._file.signatures:
                    self._signature(signature, number)
        return dtypes

    def session_graphs(self) -> set[str]:
        """Add the uses of the line's variables in graphs of sessions; return their dtypes."""
        dtypes = set[str]()
        for function in self._file.session_graphs():
            for instance in function.instances:
                graph = instance.input
                made = {
                    node
                    for node, op in enumerate(graph.ops)
                    if op == "VarHandleOp"
                    and self._line(function.name, graph, node) == self._made_at
                }
                for node in made:
                    known = self._file.attribute_set(graph.attributes[node])
                    dtypes.add(str(known.get("dtype")))
                if made:
                    self._graph(function.name, graph, made)
        return dtypes

    def _signature(self, signature: Signature, resource: int) -> None:
        """Add the uses of a resource in an eager op or a call."""
        bound = [k for k, each in enumerate(signature.inputs) if each.resource == resource]
        if not bound:
            return
        if signature.is_function:
            function = self._file.function(signature.op)
            self._found.are_known &= function is not None and bool(function.instances)
            for instance in () if function is None else function.instances:
                arguments = argument_nodes(instance.input, self._file.attributes)
                handles = {arguments[at] for at in bound if at in arguments}
                self._graph(signature.op, instance.input, handles)
            return
        place = _place(self._file.frame(signature.frame))
        known = self._file.attribute_set(signature.attributes)
        if known.get("dtype") != _DTYPE:
            self._found.are_known &= signature.op in _WITHOUT_VALUE
            return
        self.reaches_eager |= signature.op in READS
        for slot, each in enumerate(signature.inputs):
            is_value = attribute_at(signature.op, known, slot) == "dtype"
            if place not in {None, self._made_at} and each.dtype == _DTYPE and is_value:
                self._add(VariableUse(signature.op, place, slot, None, not each.device))

    def _add(self, use: VariableUse) -> None:
        self._found.combined[use] = None

    def _line(self, function: str, graph: Graph, node: int) -> Place | None:
        return None if node == UNKNOWN else _place(self._frame(function, graph, node))

    def _frame(
        self, function: str, graph: Graph, node: int, *, of_library: bool = False
    ) -> Frame | None:
        origin = graph.origin_functions[node] or function
        name = graph.origin_nodes[node] or graph.names[node]
        return self._file.frame_of_node(origin, name, of_library=of_library)

    def _is_converting(self, function: str, graph: Graph, node: int) -> bool:
        """Return whether code made an op that first gives all values the same dtype."""
        library = self._frame(function, graph, node, of_library=True)
        return library is not None and is_below(library, _KERAS)

    def _graph(self, function: str, graph: Graph, handles: set[int]) -> None:
        """Add the ops of a function that combine other values with a variable."""
        attributes = [self._file.attribute_set(number) for number in graph.attributes]
        changed, users = self._changed(graph, attributes, handles)
        for node, name in users.items():
            op, place = graph.ops[node], self._line(function, graph, node)
            if op in RESULTS:
                self.reaches_eager = True
                continue
            for slot, (source, _) in enumerate(graph.sources(node)):
                if attribute_at(op, attributes[node], slot) != name or source in changed:
                    continue
                if self._is_converting(function, graph, node):
                    continue
                if place is None:
                    self._found.are_known = False
                elif place != self._made_at:
                    made = self._line(function, graph, source)
                    is_constant = graph.ops[source] == "Const" and made == place
                    self._add(VariableUse(op, place, slot, made, is_constant))

    def _changed(
        self, graph: Graph, attributes: Sequence[Attributes], handles: set[int]
    ) -> tuple[set[int], dict[int, str]]:
        """Return the nodes whose results change their dtype, and the users of those results.

        Each user maps to its attribute that is set to the variable's dtype.
        """
        takers: dict[int, list[tuple[int, int, int]]] = {}
        for node in range(len(graph.ops)):
            for slot, (source, output) in enumerate(graph.sources(node)):
                takers.setdefault(source, []).append((node, slot, output))
        changed, users, left = set(handles), dict[int, str](), list(handles)
        while left:
            source = left.pop()
            for node, slot, output in takers.get(source, ()):
                op, known = graph.ops[node], attributes[node]
                if source in handles:
                    name = self._name_of_handles_user(op, known, slot)
                elif _gives(graph.ops[source], users[source], output):
                    name = attribute_at(op, known, slot)
                else:
                    continue
                if name == _HANDLE and node not in handles:  # hands it on
                    handles.add(node)
                    changed.add(node)
                    left.append(node)
                elif name in known and node not in users:
                    users[node] = name
                    if _gives(op, name):
                        changed.add(node)
                        left.append(node)
                self._found.are_known &= name in {_HANDLE, _NOTHING} or self._fits(op, known, name)
        return changed, users

    def _name_of_handles_user(self, op: str, known: Attributes, slot: int) -> str:
        """Return the attribute for the variable's dtype, `_HANDLE`, or `_NOTHING`."""
        if known.get(attribute_at(op, known, slot)) == "resource":
            return _HANDLE
        return _NOTHING if op in _WITHOUT_VALUE else "dtype"

    def _fits(self, op: str, known: Attributes, name: str) -> bool:
        """Return whether an op takes the new dtype; `name` is its attribute for the old one."""
        return known.get(name) == _DTYPE and _has_kernel(op, {**known, name: self._new})


def _has_kernel(op: str, attributes: Attributes) -> bool:
    found = (registries()[-1].find(op, device, attributes) for device in (GPU, CPU))
    return op in RESULTS or any(kernel is not None for kernel in found)


def _gives(op: str, name: str, output: int | None = None) -> bool:
    """Return whether an attribute sets the dtype of an op's result, or of one of its results."""
    definition = definition_of(op)
    outputs = () if definition is None else definition.outputs
    if output is not None and not any(each.number_attr or each.type_list_attr for each in outputs):
        outputs = outputs[output : output + 1]
    return op in READS or any(name in {o.type_attr, o.type_list_attr} for o in outputs)


def _place(frame: Frame | None) -> Place | None:
    return None if frame is None or not frame.is_user else (frame.file, frame.line)
