"""Finds the `tf.device` scopes around ops, and the devices they request on another machine.

A scope can request the device of an object, and that device differs between machines. An optimizer
creates its slots on the device of the variable (`add_variable_from_reference` of
keras/src/backend/tensorflow/optimizer.py), `tf.function` initializes a variable where its handle is
(`assign_fn` of eager/polymorphic_function/polymorphic_function.py), programs write
`tf.device(x.device)`, and TensorFlow lowers a loop to ops on the devices of its inputs
(core/common_runtime/lower_while_op.cc). Without a GPU, these all request the CPU by its full name.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from traceanalyzer.capture_file import document
from traceanalyzer.capture_file.document import OF_OP, CaptureFile, Resource, Scope, Signature
from traceanalyzer.capture_file.function_records import Graph
from traceanalyzer.data_files import toml
from traceanalyzer.placement import kernel_tables
from traceanalyzer.placement.devices import (
    CPU,
    NO_SCOPE,
    DeviceName,
    Machine,
    parse_device,
    type_in_scope,
)
from traceanalyzer.placement.nodes import ARGUMENTS, RESULTS, classes_of

_BY_TENSORFLOW: Final = Scope(device="", frame=-1, origin=-1)
_IMPORTER: Final = "tensorflow/python/framework/importer.py"


def origin_of(function: str, graph: Graph, node: int) -> tuple[str, str]:
    """Return the name of the function that defines a node, and the node's name in it."""
    return (
        graph.origin_functions[node] or function,
        graph.origin_nodes[node] or graph.names[node],
    )


def _inlined_call(graph: Graph, node: int) -> str:
    return graph.names[node].removesuffix(f"/{graph.origin_nodes[node]}")


def colocated_request(capture_file: CaptureFile, graph: Graph, node: int) -> int:
    """Return the node from which `colocate_with` copied a node's requested device, or -1."""
    for group in classes_of(capture_file.attribute_set(graph.attributes[node])):
        at = graph.index(group)
        if at not in {-1, node} and graph.devices[at] == graph.devices[node]:
            return at
    return -1


def _scopes_around(capture_file: CaptureFile, function: str, node: str) -> list[Scope] | None:
    """Return the scopes around a node, innermost first, or None if TensorFlow itself created it."""
    definition = capture_file.definition(function)
    if definition is None:
        return []
    at = definition.index(node)
    if at < 0:
        return [] if document.is_session(function) else None
    return [capture_file.scopes[number] for number in definition.scopes[at] or ()]


def scopes_of_node(
    capture_file: CaptureFile, function: str, graph: Graph, node: int, requested: str
) -> Iterator[tuple[Scope, str]]:
    """Yield the scopes that request a node's device, innermost first.

    Each scope comes with "" if it is around the node itself, or with the name of the inlined
    function if it is around the call: an inlined node without a request gets the call's device
    (`InlineFunctionBody`, core/common_runtime/inline_function_utils.cc).
    """
    definition, name = origin_of(function, graph, node)
    own, is_end = _requesting(_scopes_around(capture_file, definition, name) or (), requested)
    for scope in _of_owners(capture_file, own):
        yield scope, ""
    if definition != function and not is_end:
        around = _scopes_around(capture_file, function, _inlined_call(graph, node)) or ()
        for scope in _requesting(around, requested)[0]:
            yield scope, definition


def scopes_of_making(
    capture_file: CaptureFile, resource: Resource | None, below: int = document.LARGEST
) -> tuple[Scope, ...]:
    """Return the scopes that requested a resource's device, innermost first.

    Ignore resources numbered `below` or higher, because they were created later.
    """
    if resource is not None and resource.signature >= 0:
        maker = capture_file.signatures[resource.signature]
        if maker.scope and type_in_scope(maker.scope) == type_in_scope(resource.device):
            return scopes_of_eager(capture_file, maker, resource.device, below)
    return ()


def scopes_of_eager(
    capture_file: CaptureFile,
    signature: Signature,
    requested: str,
    below: int = document.LARGEST,
) -> tuple[Scope, ...]:
    """Return the scopes that request the device of an eager op or a call, one per source line."""
    around = (capture_file.scopes[number] for number in signature.scopes)
    by_line: dict[int, Scope] = {}
    for scope in _of_owners(capture_file, _requesting(around, requested)[0], below):
        by_line.setdefault(scope.frame, scope)
    innermost = Scope(device=signature.scope, frame=signature.scope_frame)
    return tuple(by_line.values()) or (innermost,)


def _of_owners(
    capture_file: CaptureFile, scopes: Iterable[Scope], below: int = document.LARGEST
) -> Iterator[Scope]:
    """Replace scopes that request an object's device with the scopes that put the object there."""
    for scope in scopes:
        making: tuple[Scope, ...] = ()
        origin = scope.origin
        if origin is not None and 0 <= origin < below:
            making = scopes_of_making(capture_file, capture_file.resources[origin], origin)
        elif origin is not None and origin <= OF_OP:
            around = capture_file.signatures[OF_OP - origin].scopes
            making, _ = _requesting([capture_file.scopes[at] for at in around], scope.device)
        yield from making or (scope,)


def _requesting(scopes: Iterable[Scope], requested: str) -> tuple[tuple[Scope, ...], bool]:
    """Return the scopes before the first with another device type, and whether there is one."""
    found = []
    for scope in scopes:
        kind = type_in_scope(scope.device)
        if kind == type_in_scope(requested):
            found.append(scope)
        elif kind or scope.device in NO_SCOPE:
            return tuple(found), True
    return tuple(found), False


def _innermost(scopes: Iterable[Scope]) -> Scope | None:
    deciding = (s for s in scopes if s.device in NO_SCOPE or type_in_scope(s.device))
    found = next(deciding, None)
    return None if found is None or found.device in NO_SCOPE else found


@dataclass(kw_only=True)
class ReadDevices:
    """Translates a program's device requests to another machine.

    A request for the device of a resource or an op follows that resource or op. A request for the
    device of any other object is dropped.
    """

    capture_file: CaptureFile
    machine: Machine
    resources: Sequence[str]  #: their devices on that machine, filled in as they are placed
    place: Callable[[Signature], str]
    as_recorded: frozenset[Scope]  #: the scopes whose request does not change
    _places: dict[int, str] = field(default_factory=dict)  # of ops, by signature

    def of_eager(self, signature: Signature) -> str:
        """Return the device that an eager op or a call requests on the other machine."""
        scopes = (self.capture_file.scopes[number] for number in signature.scopes)
        return self._on_machine(_innermost(scopes), signature.scope)

    def of_graph(self, function: str, graph: Graph, host: str) -> Graph:
        """Return a graph with its device requests translated. `host` is the recorded CPU."""
        devices = list(graph.devices)
        for node, device in enumerate(graph.devices):
            is_bound = graph.ops[node] in ARGUMENTS or graph.ops[node] in RESULTS
            if type_in_scope(device) == CPU and not is_bound:
                scope = self._scope_of(function, graph, node)
                if device == host or scope is not _BY_TENSORFLOW:
                    devices[node] = self._on_machine(scope, device)
        return replace(graph, devices=tuple(devices)) if tuple(devices) != graph.devices else graph

    def _on_machine(self, scope: Scope | None, device: str) -> str:
        if scope is None or scope.origin is None or scope in self.as_recorded:
            return device
        if scope.origin == document.OF_MACHINE:
            first = parse_device(self.machine.devices[0])
            # A strategy with parameter servers names no tasks: each worker uses its own devices.
            has_task = device.startswith("/job:") or first.job == "localhost"
            return str(first if has_task else DeviceName(type=first.type, id=first.id))
        if scope.origin <= OF_OP:
            return self._of_maker(OF_OP - scope.origin)
        return self.resources[scope.origin] if scope.origin >= 0 else ""

    def _of_maker(self, number: int) -> str:
        """Return the device of the op that made a tensor, or "" if it is unknown."""
        if number not in self._places:
            self._places[number] = ""  # for a malformed file with a cycle
            maker = self.capture_file.signatures[number]
            self._places[number] = "" if maker.is_function else self.place(maker)
        return self._places[number]

    def _scope_of(self, function: str, graph: Graph, node: int) -> Scope | None:
        """Return the scope around a node, or around its inlined call or colocated node, if any."""
        definition, name = origin_of(function, graph, node)
        scopes = _scopes_around(self.capture_file, definition, name)
        if scopes is None:
            return _BY_TENSORFLOW  # no code made it: TensorFlow did, when it inlined or lowered
        found = _innermost(scopes)
        others = [_inlined_call(graph, node)] if definition != function else []
        if found is None and (at := colocated_request(self.capture_file, graph, node)) >= 0:
            others.append(graph.names[at])
        for other in others:
            around = _scopes_around(self.capture_file, function, other) or ()
            found = found or _innermost(around)
        return found


def unsure_scopes(capture_file: CaptureFile) -> Iterator[Scope]:
    """Yield the scopes that may request a different device on another machine.

    Such a scope requests a device that depends on the available GPUs, or the device of a
    function's result or of an unknown object. This includes scopes in imported graphs.
    """
    for scope in capture_file.scopes:
        is_choice = scope.origin == document.OF_MACHINE and scope.frame in capture_file.chosen
        frame = capture_file.frame(scope.frame)
        may_be_unknown = frame is None or frame.is_user or frame.file.endswith(_IMPORTER)
        if is_choice or (may_be_unknown and _is_unknown(capture_file, scope)):
            yield scope


def _is_unknown(capture_file: CaptureFile, scope: Scope) -> bool:
    if scope.origin is None or scope.origin > OF_OP:
        return scope.origin == document.OF_ANOTHER
    return capture_file.signatures[OF_OP - scope.origin].is_function


# Library code that requests the CPU: its id, the names of its ops, the versions that have it.
_LIBRARY_SCOPES: Final = [
    (
        entry["habit"],
        re.compile(entry["name"].replace("{number}", r"(?:_\d+)*")),
        entry.get("versions", [[0, 0], [999, 0]]),
    )
    for entry in toml("placement/data/library_scopes.toml")["scope"]
]


def habit_of(name: str, version: str | None) -> str:
    """Return the id of the library code that requests the CPU for ops with this name, or ""."""
    minor = [*kernel_tables.nearest_minor(version)[0]]
    found = (
        habit
        for habit, names, (first, last) in _LIBRARY_SCOPES
        if first <= minor <= last and names.search(name)
    )
    return next(found, "")
