"""What keeps an op from a GPU, with all that a capture recorded of it: lines, scopes, resources."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.document import LARGEST, OF_OP, Scope
from traceanalyzer.capture_file.function_records import UNKNOWN
from traceanalyzer.placement.blocker import Blocker, BlockerKind
from traceanalyzer.placement.dataset_calls import functions_of_steps
from traceanalyzer.placement.devices import GPU, NO_SCOPE, type_in_scope
from traceanalyzer.placement.op_definitions import InputTypesError
from traceanalyzer.placement.retyping import VariableUses
from traceanalyzer.placement.support import all_on_host

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from traceanalyzer.capture_file.document import (
        Attributes,
        CaptureFile,
        Frame,
        Resource,
        Signature,
    )
    from traceanalyzer.capture_file.function_records import Graph
    from traceanalyzer.placement.blocker import Link
    from traceanalyzer.placement.nodes import Edge
    from traceanalyzer.placement.program import FunctionPlacement
    from traceanalyzer.placement.registry import Registry


_BY_REQUEST: Final = frozenset({BlockerKind.REQUEST, BlockerKind.RESOURCE})
# The type whose variables are always on the CPU: the GPU may have a kernel for another.
_WITHOUT_KERNEL: Final = "int32"


class BlockerRecords:
    """Adds to blockers what a capture file knows of them: lines, scopes, resources."""

    def __init__(self, capture_file: CaptureFile, registry: Registry) -> None:
        self._capture_file = capture_file
        self._registry = registry
        self._bound: dict[int, list[int]] = {}
        self._uses = VariableUses(capture_file)
        self._types: dict[int, tuple[str, ...] | None] = {}
        self._of_steps = functions_of_steps(capture_file)

    def of_eager(self, signature: Signature, blocker: Blocker) -> Iterator[Blocker]:
        """Walk what keeps an eager op off a GPU: each scope that requests the CPU by itself."""
        capture_file = self._capture_file
        resource = None
        if blocker.input is not None:
            resource = capture_file.resource_of(signature.inputs[blocker.input])
        if blocker.kind is BlockerKind.REQUEST:
            scopes = _scopes_of_eager(capture_file, signature, blocker.requested_device)
        else:
            scopes = scopes_of_making(capture_file, resource)
        known = self._attributes_of(signature)
        made = resource or self._made_by(signature)
        found = replace(
            blocker,
            input=None,
            link="own" if resource is None else "resource",
            type=signature.op,
            attributes={name: known.get(name) for name in blocker.refused},
            given=known,
            frame=capture_file.frame(signature.frame),
            library=capture_file.frame(signature.library),
            resource=resource,
            made_at=self._line_of_making(resource),
            made_in=self._library_of_making(made),
            types=self._types_of(made),
        )
        yield from self._in_scopes(found, [(scope, "") for scope in scopes])

    def of_node(self, placed: FunctionPlacement, node: int, blocker: Blocker) -> Iterator[Blocker]:
        """Walk what keeps a node off a GPU: each scope that requests the CPU by itself."""
        capture_file, graph = self._capture_file, placed.placement.nodes.graph
        known = capture_file.attribute_set(graph.attributes[blocker.node])
        call = None
        if blocker.kind is BlockerKind.DEFAULT_DEVICE and placed.call is not None:
            call = capture_file.signatures[placed.call]
        resource = self._resource(placed, blocker)
        found = replace(
            blocker,
            node=UNKNOWN,
            link=self.link(placed, node, blocker.node),
            type=graph.ops[blocker.node],
            name=graph.names[blocker.node],
            function=placed.function,
            attributes={name: known.get(name) for name in blocker.refused},
            given=known,
            frame=capture_file.frame_of_node(*self._origin(placed, blocker.node)),
            library=self.library_of(placed, blocker.node),
            resource=resource,
            made_at=self._line_of_making(resource),
            made_in=self._library_of_making(resource),
            types=self._types_of(resource) or self._types_of_node(graph, blocker.node),
            call=call,
            for_step=placed.function in self._of_steps,
        )
        scopes: list[tuple[Scope, str]] = []
        if call is not None:
            scopes = [(each, "") for each in _scopes_of_eager(capture_file, call, call.scope)]
        elif blocker.kind is BlockerKind.ASSIGNED:
            scopes = [(each, "") for each in scopes_of_making(capture_file, resource)]
        elif blocker.kind in _BY_REQUEST:
            scopes = list(self._scopes(placed, blocker))
            if not scopes:
                found = replace(found, copied_from=_copied_from(placed, blocker.node))
        yield from self._in_scopes(found, scopes)

    def _in_scopes(
        self, blocker: Blocker, scopes: Sequence[tuple[Scope, str]]
    ) -> Iterator[Blocker]:
        """Walk a blocker once for each scope, with the function that was called in it."""
        for scope, called_in in scopes:
            frame = self._capture_file.frame(scope.frame)
            yield replace(blocker, scope=scope.device, scope_frame=frame, called_in=called_in)
        if not scopes:
            yield blocker

    def in_host_memory_eager(self, signature: Signature, device: str) -> Blocker | None:
        """Return why the host computes an eager op that is on a GPU; None where it does not."""
        known = self._attributes_of(signature)
        found = self._in_host_memory(signature.op, known, device)
        frame = self._capture_file.frame(signature.frame)
        return None if found is None else replace(found, frame=frame)

    def in_host_memory(self, placed: FunctionPlacement, node: int) -> Blocker | None:
        """Return why the host computes a node that is on a GPU; None where it does not."""
        graph = placed.placement.nodes.graph
        known = self._capture_file.attribute_set(graph.attributes[node])
        found = self._in_host_memory(graph.ops[node], known, placed.placement.devices[node])
        if found is None:
            return None
        return replace(
            found,
            name=graph.names[node],
            function=placed.function,
            frame=self._capture_file.frame_of_node(*self._origin(placed, node)),
        )

    def _in_host_memory(self, op: str, known: Attributes, device: str) -> Blocker | None:
        definition = self._registry.definition(op)
        kernel = self._registry.find(op, GPU, known)
        if definition is None or kernel is None:
            return None
        complete = definition.complete(known)
        if not all_on_host(kernel, definition, complete):
            return None
        types = {n: complete.get(n) for n, a in definition.attributes.items() if a.is_type}
        return Blocker(
            kind=BlockerKind.HOST_MEMORY,
            type=op,
            attributes=types,
            requested_device=device,
            kernel=kernel,
        )

    def library_of(self, placed: FunctionPlacement, node: int) -> Frame | None:
        """Return the line of a library that made a node, or None where the user's code did."""
        return self._capture_file.library_of_node(*self._origin(placed, node))

    def _library_of_making(self, resource: Resource | None) -> Frame | None:
        if resource is None or resource.signature < 0:
            return None
        return self._capture_file.frame(self._capture_file.signatures[resource.signature].library)

    def _made_by(self, signature: Signature) -> Resource | None:
        found = (self._capture_file.resource_of(tensor) for tensor in signature.outputs)
        return next((resource for resource in found if resource is not None), None)

    def _types_of(self, resource: Resource | None) -> tuple[str, ...] | None:
        if resource is None or resource.dtype != _WITHOUT_KERNEL:
            return None
        if id(resource) not in self._types:
            self._types[id(resource)] = self._uses.types_of_resource(resource)
        return self._types[id(resource)]

    def _types_of_node(self, graph: Graph, node: int) -> tuple[str, ...] | None:
        dtype = self._capture_file.attribute_set(graph.attributes[node]).get("dtype")
        if graph.ops[node] != "VarHandleOp" or dtype != _WITHOUT_KERNEL:
            return None
        return self._uses.types_of_node(graph, node, str(dtype))

    def _line_of_making(self, resource: Resource | None) -> Frame | None:
        if resource is None or resource.signature < 0:
            return None
        return self._capture_file.frame(self._capture_file.signatures[resource.signature].frame)

    def _attributes_of(self, signature: Signature) -> Attributes:
        """Return an eager op's attributes, with those that its inputs determine."""
        known = self._capture_file.attribute_set(signature.attributes)
        definition = self._registry.definition(signature.op)
        types = [t.dtype for t in signature.inputs]
        if definition is None or not all(types):
            return known
        try:
            return {**definition.attributes_of_inputs(types), **known}
        except InputTypesError:
            return known

    def _origin(self, placed: FunctionPlacement, node: int) -> tuple[str, str]:
        """Return the definition that a node comes from, and its name there."""
        graph = placed.placement.nodes.graph
        function = graph.origin_functions[node] or placed.function
        return function, graph.origin_nodes[node] or graph.names[node]

    def _scopes(self, placed: FunctionPlacement, blocker: Blocker) -> Iterator[tuple[Scope, str]]:
        """Walk the scopes that request the device of a node, the innermost first.

        Without the innermost the next one would decide. A node without a request has the device of
        the call that it was inlined from (`InlineFunctionBody`,
        core/common_runtime/inline_function_utils.cc).

        Yields:
            A scope, and the function that was called in it; "" where it is around the node itself.
        """
        function, name = self._origin(placed, blocker.node)
        own, is_end = self._scopes_around(function, name, blocker.requested_device)
        for scope in _of_owners(self._capture_file, own):
            yield scope, ""
        caller = placed.function
        if function == caller or is_end:
            return
        inlined = placed.placement.nodes.graph.names[blocker.node].removesuffix(f"/{name}")
        for scope in self._scopes_around(caller, inlined, blocker.requested_device)[0]:
            yield scope, function

    def _scopes_around(
        self, function: str, node: str, requested: str
    ) -> tuple[tuple[Scope, ...], bool]:
        """Return the scopes around a node that request a device, and whether another ends them."""
        definition = self._capture_file.definition(function)
        at = -1 if definition is None else definition.index(node)
        scopes = None if definition is None or at < 0 else definition.scopes[at]
        return _requesting(
            [self._capture_file.scopes[number] for number in scopes or ()], requested
        )

    def _resource(self, placed: FunctionPlacement, blocker: Blocker) -> Resource | None:
        if blocker.kind is not BlockerKind.ASSIGNED or placed.call is None:
            return None
        graph = placed.placement.nodes.graph
        index = self._capture_file.attribute_set(graph.attributes[blocker.node]).get("index")
        bound = self._capture_file.signatures[placed.call].inputs
        if isinstance(index, int) and index < len(bound):
            return self._capture_file.resource_of(bound[index])
        return None

    def link(self, placed: FunctionPlacement, node: int, blocked: int) -> Link:
        """Return how a node is tied to the one that holds it."""
        if blocked == node:
            return "own"
        placement = placed.placement
        if placement.roots[blocked] != placement.roots[node]:
            return "follows"
        nodes = placement.nodes
        bound = self._bound.get(id(nodes))
        if bound is None:
            bound = self._bound[id(nodes)] = _components(len(nodes), nodes.bound)
        return "resource" if bound[blocked] == bound[node] else "class"


def _copied_from(placed: FunctionPlacement, node: int) -> str:
    """Return whose request a node has: `colocate_with` copies it, beside `_class`."""
    nodes = placed.placement.nodes
    devices = nodes.graph.devices
    for group in nodes.classes.get(node, ()):
        at = nodes.graph.index(group)
        if at >= 0 and group != nodes.graph.names[node] and devices[at] == devices[node]:
            return group
    return ""


def scopes_of_making(
    capture_file: CaptureFile, resource: Resource | None, below: int = LARGEST
) -> tuple[Scope, ...]:
    """Return the scopes that a resource was made in, each of which requests its device by itself.

    Args:
        resource: The resource, or None.
        below: The number of a resource: what was made after it cannot have decided on its device.

    Returns:
        The innermost first; none where no scope requests it, or none is recorded.
    """
    if resource is None or resource.signature < 0:
        return ()
    maker = capture_file.signatures[resource.signature]
    if not maker.scope or type_in_scope(maker.scope) != type_in_scope(resource.device):
        return ()
    return _scopes_of_eager(capture_file, maker, resource.device, below)


def _scopes_of_eager(
    capture_file: CaptureFile, signature: Signature, requested: str, below: int = LARGEST
) -> tuple[Scope, ...]:
    """Return the scopes that request the device of an eager op, or of a call: at least one.

    Of a line that is met again, as where a function calls itself, one.
    """
    around = [capture_file.scopes[number] for number in signature.scopes]
    by_line: dict[int, Scope] = {}
    for scope in _of_owners(capture_file, _requesting(around, requested)[0], below):
        by_line.setdefault(scope.frame, scope)
    innermost = Scope(device=signature.scope, frame=signature.scope_frame)
    return tuple(by_line.values()) or (innermost,)


def _of_owners(
    capture_file: CaptureFile, scopes: Iterable[Scope], below: int = LARGEST
) -> Iterator[Scope]:
    """Replace scopes for the device of a resource or a tensor by those that it was made in."""
    for scope in scopes:
        making: tuple[Scope, ...] = ()
        if scope.origin is not None and 0 <= scope.origin < below:
            making = scopes_of_making(
                capture_file, capture_file.resources[scope.origin], scope.origin
            )
        elif scope.origin is not None and scope.origin <= OF_OP:
            around = capture_file.signatures[OF_OP - scope.origin].scopes
            making, _ = _requesting(
                [capture_file.scopes[number] for number in around], scope.device
            )
        yield from making or (scope,)


def _requesting(scopes: Iterable[Scope], requested: str) -> tuple[tuple[Scope, ...], bool]:
    """Return which scopes request a type of device, and whether another ends them.

    Args:
        scopes: Scopes one around the other, the innermost first.
    """
    found = []
    for scope in scopes:
        if type_in_scope(scope.device) == type_in_scope(requested):
            found.append(scope)
        elif type_in_scope(scope.device) or scope.device in NO_SCOPE:
            return tuple(found), True
    return tuple(found), False


def _components(count: int, edges: Iterable[Edge]) -> list[int]:
    first = list(range(count))

    def top(node: int) -> int:
        while first[node] != node:
            first[node] = first[first[node]]
            node = first[node]
        return node

    for source, target in edges:
        one, other = sorted((top(source), top(target)))
        first[other] = one
    return [top(node) for node in range(count)]
