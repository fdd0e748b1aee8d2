"""Requests for the device of something else, which is another device on another machine.

An optimizer makes its slots under the device of the variable (`add_variable_from_reference` of
keras/src/backend/tensorflow/optimizer.py), `tf.function` initializes a variable where its handle is
(`assign_fn` of eager/polymorphic_function/polymorphic_function.py), programs write
`tf.device(x.device)`, and TensorFlow lowers a loop to ops on the device of what enters it
(core/common_runtime/lower_while_op.cc). Without a GPU all these ask for the CPU by its full name.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.document import OF_ANOTHER, OF_MACHINE, OF_OP, Scope, is_session
from traceanalyzer.placement.devices import CPU, NO_SCOPE, type_in_scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from traceanalyzer.capture_file.document import CaptureFile, Signature
    from traceanalyzer.capture_file.function_records import Graph
    from traceanalyzer.placement.devices import Machine

# Their devices are bindings, not requests.
_ENDS: Final = frozenset({"_Arg", "_DeviceArg", "_Retval", "_DeviceRetval"})
_BY_TENSORFLOW: Final = Scope(device="", frame=-1, origin=-1)
_IMPORTER: Final = "tensorflow/python/framework/importer.py"
_CLASS, _GROUP = "_class", "loc:@"


class ReadDevices:
    """Returns requests as they would be on another machine.

    A request for the device of a resource becomes one for the device where that resource is; a
    request for the device of something else is dropped: whatever else decides, decides there, too.
    """

    def __init__(
        self,
        capture_file: CaptureFile,
        machine: Machine,
        resources: Sequence[str],
        place: Callable[[Signature], str],
        *,
        unsure_as_recorded: bool = False,
    ) -> None:
        """Prepare.

        Args:
            resources: Where each resource is on it, "" for not known.
            unsure_as_recorded: Whether unsure requests are what they were.
        """
        self._unsure = frozenset(unsure_scopes(capture_file)) if unsure_as_recorded else frozenset()
        self._capture_file = capture_file
        self._machine = machine
        self._resources = resources
        self._place = place
        self._places: dict[int, str] = {}  # of ops, by signature

    def of_eager(self, signature: Signature) -> str:
        """Return the requested device of an eager op or a call."""
        scopes = (self._capture_file.scopes[number] for number in signature.scopes)
        return self._on_machine(_innermost(scopes), signature.scope)

    def of_graph(self, function: str, graph: Graph, host: str) -> Graph:
        """Return a graph with the requested devices on the machine.

        Args:
            host: The CPU of the machine it was recorded on. A request of TensorFlow's own names
                that in full.
        """
        devices = list(graph.devices)
        for node, device in enumerate(graph.devices):
            if type_in_scope(device) != CPU or graph.ops[node] in _ENDS:
                continue
            scope = self._scope_of(function, graph, node)
            if device == host or scope is not _BY_TENSORFLOW:
                devices[node] = self._on_machine(scope, device)
        return replace(graph, devices=tuple(devices)) if tuple(devices) != graph.devices else graph

    def _on_machine(self, scope: Scope | None, device: str) -> str:
        if scope is None or scope.origin is None or scope in self._unsure:
            return device
        if scope.origin == OF_MACHINE:
            return self._machine.devices[0]
        if scope.origin <= OF_OP:
            return self._of_maker(OF_OP - scope.origin)
        return self._resources[scope.origin] if scope.origin >= 0 else ""

    def _of_maker(self, number: int) -> str:
        """Return where an op runs that made a tensor, "" where that is not known."""
        if number not in self._places:
            self._places[number] = ""  # what a file claims to depend on itself
            maker = self._capture_file.signatures[number]
            self._places[number] = "" if maker.is_function else self._place(maker)
        return self._places[number]

    def _scope_of(self, function: str, graph: Graph, node: int) -> Scope | None:
        """Return the scope that a node has its device from: its own, or that of a call of it."""
        name, origin = graph.names[node], graph.origin_nodes[node]
        inner = graph.origin_functions[node]
        scopes = self._scopes_around(inner or function, origin or name)
        if scopes is None:
            return _BY_TENSORFLOW  # no code made it: TensorFlow did, when it inlined or lowered
        found = _innermost(scopes)
        if found is None and inner and inner != function:
            call = name.removesuffix(f"/{origin}")
            found = _innermost(self._scopes_around(function, call) or ())
        return found or self._scope_of_group(function, graph, node)

    def _scope_of_group(self, function: str, graph: Graph, node: int) -> Scope | None:
        """Return the scope of the op that a node is colocated with, whose device it got."""
        groups = self._capture_file.attribute_set(graph.attributes[node]).get(_CLASS)
        for group in groups if isinstance(groups, list) else ():
            text = group.get("s") if isinstance(group, dict) else None
            at = graph.index(text.removeprefix(_GROUP)) if isinstance(text, str) else -1
            if at not in {-1, node} and graph.devices[at] == graph.devices[node]:
                own = self._scopes_around(function, graph.names[at])
                return _innermost(own or ())
        return None

    def _scopes_around(self, function: str, node: str) -> list[Scope] | None:
        """Return the scopes around a node, innermost first; None for a node that no code made."""
        definition = self._capture_file.definition(function)
        if definition is None:
            return []
        at = definition.index(node)
        if at < 0:
            return [] if is_session(function) else None
        return [self._capture_file.scopes[number] for number in definition.scopes[at] or ()]


def unsure_scopes(capture_file: CaptureFile) -> Iterator[Scope]:
    """Walk the scopes of the program that request a device which another machine may not have.

    The device is that of a function's result or of something unknown, or was chosen by the GPUs
    that the program found. An imported graph may have been built on a machine without a GPU.
    """
    for scope in capture_file.scopes:
        is_choice = scope.origin == OF_MACHINE and scope.frame in capture_file.chosen
        frame = capture_file.frame(scope.frame)
        may_be_unknown = frame is not None and (frame.is_user or frame.file.endswith(_IMPORTER))
        if is_choice or (may_be_unknown and _is_unknown(capture_file, scope)):
            yield scope


def _is_unknown(capture_file: CaptureFile, scope: Scope) -> bool:
    if scope.origin is None or scope.origin > OF_OP:
        return scope.origin == OF_ANOTHER
    return capture_file.signatures[OF_OP - scope.origin].is_function


def _innermost(scopes: Iterable[Scope]) -> Scope | None:
    """Return the innermost of scopes that names a type of device."""
    for scope in scopes:
        if scope.device in NO_SCOPE:
            return None
        if type_in_scope(scope.device):
            return scope
    return None
