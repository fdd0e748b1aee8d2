"""Adds the recorded lines, scopes, and resources to the blockers of an op."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from traceanalyzer.placement.blocker import Blocker, BlockerKind
from traceanalyzer.placement.calls import functions_of_steps
from traceanalyzer.placement.devices import GPU
from traceanalyzer.placement.kernel_types import all_on_host
from traceanalyzer.placement.op_definitions import InputTypesError
from traceanalyzer.placement.retyping import VariableUses
from traceanalyzer.placement.scopes import (
    colocated_request,
    origin_of,
    scopes_of_eager,
    scopes_of_making,
    scopes_of_node,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from traceanalyzer.capture_file.document import (
        Attributes,
        CaptureFile,
        Frame,
        Resource,
        Scope,
        Signature,
    )
    from traceanalyzer.placement.blocker import Link
    from traceanalyzer.placement.nodes import Edge
    from traceanalyzer.placement.program import FunctionPlacement
    from traceanalyzer.placement.registry import Registry

BY_REQUEST: Final = frozenset({BlockerKind.REQUEST, BlockerKind.RESOURCE})
# The type whose variables are always on the CPU: others can have a GPU kernel.
_WITHOUT_KERNEL: Final = "int32"
_ADDS_A_VARIABLE: Final = "add_weight"


class Site(NamedTuple):
    """Where and how an op was created: fields of a blocker."""

    type: str
    name: str  # "" for an eager op, as is `function`
    function: str
    frame: Frame | None
    library: Frame | None
    given: Attributes


class BlockerRecords:
    """Adds recorded lines, scopes, and resources to blockers."""

    def __init__(self, capture_file: CaptureFile, registry: Registry) -> None:
        self._capture_file = capture_file
        self._registry = registry
        self._bound: dict[int, list[int]] = {}
        self._uses = VariableUses(capture_file)
        self._types: dict[int, tuple[str, ...] | None] = {}
        self._of_steps = functions_of_steps(capture_file)

    def of_eager(self, signature: Signature, blocker: Blocker) -> Iterator[Blocker]:
        """Walk a blocker of an eager op, once for each scope that requests the CPU."""
        capture_file = self._capture_file
        resource = None
        if blocker.input is not None:
            resource = capture_file.resource_of(signature.inputs[blocker.input])
        if blocker.kind is BlockerKind.REQUEST:
            scopes = scopes_of_eager(capture_file, signature, blocker.requested_device)
        else:
            scopes = scopes_of_making(capture_file, resource)
        outputs = (capture_file.resource_of(tensor) for tensor in signature.outputs)
        made = resource or next(filter(None, outputs), None)
        link: Link = "own" if resource is None else "resource"
        found = self._recorded(replace(blocker, link=link), self.eager_site(signature), resource)
        found = replace(found, made_in=self._maker_of(made)[1], types=self._types_of(made))
        yield from self._in_scopes(found, [(scope, "") for scope in scopes])

    def of_node(self, placed: FunctionPlacement, node: int, blocker: Blocker) -> Iterator[Blocker]:
        """Walk a blocker of a node, once for each scope that requests the CPU."""
        capture_file, graph = self._capture_file, placed.placement.nodes.graph
        at, requested = blocker.node, blocker.requested_device
        resource = self._resource(placed, blocker)
        call = None
        scopes: Sequence[tuple[Scope, str]] = ()
        copied = -1
        if blocker.kind is BlockerKind.DEFAULT_DEVICE and placed.call is not None:
            call = capture_file.signatures[placed.call]
            scopes = [(each, "") for each in scopes_of_eager(capture_file, call, call.scope)]
        elif blocker.kind is BlockerKind.ASSIGNED:
            scopes = [(each, "") for each in scopes_of_making(capture_file, resource)]
        elif blocker.kind in BY_REQUEST:
            scopes = [*scopes_of_node(capture_file, placed.function, graph, at, requested)]
            copied = -1 if scopes else colocated_request(capture_file, graph, at)
        found = self._recorded(blocker, self.node_site(placed, at), resource)
        types = found.types
        if found.type == "VarHandleOp" and found.given.get("dtype") == _WITHOUT_KERNEL:
            types = self._uses.types_of_node(graph, at, _WITHOUT_KERNEL)
        found = replace(
            found,
            link=self.link(placed, node, at),
            copied_from="" if copied < 0 else graph.names[copied],
            types=types,
            call=call,
            for_step=placed.function in self._of_steps,
        )
        yield from self._in_scopes(found, scopes)

    def _recorded(self, blocker: Blocker, site: Site, resource: Resource | None) -> Blocker:
        made_at, made_in = self._maker_of(resource)
        return replace(
            blocker,
            **site._asdict(),
            node=-1,
            input=None,
            attributes={name: site.given.get(name) for name in blocker.refused},
            resource=resource,
            made_at=made_at,
            made_in=made_in,
            types=self._types_of(resource),
        )

    def _in_scopes(
        self, blocker: Blocker, scopes: Sequence[tuple[Scope, str]]
    ) -> Iterator[Blocker]:
        """Walk a blocker once for each scope, with the function called inside the scope."""
        for scope, called_in in scopes:
            frame = self._capture_file.frame(scope.frame)
            yield replace(blocker, scope=scope.device, scope_frame=frame, called_in=called_in)
        if not scopes:
            yield blocker

    def in_host_memory(self, site: Site, device: str) -> Blocker | None:
        """Return why the host computes an op that is on a GPU; None if the GPU computes it."""
        definition = self._registry.definition(site.type)
        kernel = self._registry.find(site.type, GPU, site.given)
        if definition is None or kernel is None:
            return None
        complete = definition.complete(site.given)
        if not all_on_host(kernel, definition, complete):
            return None
        return Blocker(
            kind=BlockerKind.HOST_MEMORY,
            type=site.type,
            name=site.name,
            function=site.function,
            frame=site.frame,
            attributes={n: complete.get(n) for n, a in definition.attributes.items() if a.is_type},
            requested_device=device,
            kernel=kernel,
        )

    def eager_site(self, signature: Signature) -> Site:
        """Return where an eager op was created, with the attributes that its inputs determine."""
        known = self._capture_file.attribute_set(signature.attributes)
        definition = self._registry.definition(signature.op)
        types = [tensor.dtype for tensor in signature.inputs]
        if definition is not None and all(types):
            with suppress(InputTypesError):
                known = {**definition.attributes_of_inputs(types), **known}
        frame = self._capture_file.frame(signature.frame)
        library = self._capture_file.frame(signature.library)
        return Site(signature.op, "", "", frame, library, known)

    def node_site(self, placed: FunctionPlacement, node: int) -> Site:
        """Return where a node was created."""
        graph = placed.placement.nodes.graph
        origin = origin_of(placed.function, graph, node)
        return Site(
            type=graph.ops[node],
            name=graph.names[node],
            function=placed.function,
            frame=self._capture_file.frame_of_node(*origin),
            library=self._capture_file.frame_of_node(*origin, of_library=True),
            given=self._capture_file.attribute_set(graph.attributes[node]),
        )

    def _maker_of(self, resource: Resource | None) -> tuple[Frame | None, Frame | None]:
        """Return the lines of the user and the library that created a resource."""
        if resource is None or resource.signature < 0:
            return None, None
        maker = self._capture_file.signatures[resource.signature]
        frame = self._capture_file.frame(maker.frame)
        library = self._capture_file.frame(maker.library)
        # The user's own call of Keras's `add_weight` names the dtype, as `tf.Variable` does.
        if frame is not None and library is not None and library.code == _ADDS_A_VARIABLE:
            library = None if f".{_ADDS_A_VARIABLE}(" in (frame.text or "") else library
        return frame, library

    def _types_of(self, resource: Resource | None) -> tuple[str, ...] | None:
        if resource is None or resource.dtype != _WITHOUT_KERNEL:
            return None
        if id(resource) not in self._types:
            self._types[id(resource)] = self._uses.types_of_resource(resource)
        return self._types[id(resource)]

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
        """Return how a node is linked to the blocked node."""
        if blocked == node:
            return "own"
        placement, nodes = placed.placement, placed.placement.nodes
        if placement.roots[blocked] != placement.roots[node]:
            return "follows"
        if id(nodes) not in self._bound:
            self._bound[id(nodes)] = _components(len(nodes), nodes.bound)
        bound = self._bound[id(nodes)]
        return "resource" if bound[blocked] == bound[node] else "class"


def _components(count: int, edges: Iterable[Edge]) -> list[int]:
    """Return a representative of each node's connected component."""
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
