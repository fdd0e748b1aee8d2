"""What keeps an op from a GPU, with all that a capture recorded of it: lines, scopes, resources."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from traceanalyzer.placement.blockers import Hold
from traceanalyzer.placement.op_definitions import InputTypesError
from traceanalyzer.placement.program import SESSION
from traceanalyzer.sidecar.document import Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from traceanalyzer.placement.blockers import Blocker
    from traceanalyzer.placement.eager_blockers import EagerBlocker
    from traceanalyzer.placement.nodes import Edge
    from traceanalyzer.placement.program import FunctionPlacement
    from traceanalyzer.placement.registry import Registry
    from traceanalyzer.sidecar.document import (
        Attributes,
        Frame,
        Json,
        Resource,
        Sidecar,
        Signature,
    )

__all__ = ["Held", "HeldFinder", "Link", "scopes_of_making"]

# How what holds an op is tied to it: it is the op's own; it shares a resource, or a reference, with
# it; a `_class` attribute puts both into one group; the op follows it.
Link: TypeAlias = Literal["own", "resource", "class", "follows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One thing that keeps an op from a GPU.

    Attributes:
        hold: In which way.
        link: How it is tied to the op.
        type: Op type of the node that holds it.
        name: Its name; "" for an eager op.
        function: The function it is in; "" for an eager op.
        attributes: The attributes that no GPU kernel takes, with their values.
        asked: The device that is asked for or assigned.
        frame: The user's line that made the node, or None.
        scope: The `tf.device` scope that asks for the device, or None where none is recorded:
            around the op, around the making of its resource, or around its function's call.
        scope_frame: The line that entered it, or None.
        copied_from: The node whose request it has, by `_class`, where no scope asks for it; "".
        resource: The resource that lives elsewhere, or None.
        made_at: The user's line that made that resource, or None.
        call: The call that the default device comes from, or None.
        called_in: Where the scope is that of a call within another function: the function called.
    """

    hold: Hold
    link: Link
    type: str
    name: str = ""
    function: str = ""
    attributes: Mapping[str, Json] = field(default_factory=lambda: MappingProxyType({}))
    asked: str = ""
    frame: Frame | None = None
    scope: str | None = None
    scope_frame: Frame | None = None
    copied_from: str = ""
    resource: Resource | None = None
    made_at: Frame | None = None
    call: Signature | None = None
    called_in: str = ""


_LAST_PART: Final = re.compile(r"(?:^|/)(?:device:)?([A-Za-z]\w*)(?::(?:\d+|\*))?$", re.IGNORECASE)
_NO_DEVICE: Final = frozenset({"", "None"})  # `tf.device(None)`: no scope further out counts
_BY_REQUEST: Final = frozenset({Hold.REQUEST, Hold.RESOURCE})


class HeldFinder:
    """Tells of blockers what a sidecar knows of them."""

    def __init__(self, sidecar: Sidecar, registry: Registry) -> None:
        """Take the sidecar, and the kernels of the program's TensorFlow."""
        self._sidecar = sidecar
        self._registry = registry
        self._bound: dict[int, list[int]] = {}

    def of_eager(self, signature: Signature, blocker: EagerBlocker) -> Iterator[Held]:
        """Walk what keeps an eager op from a GPU: each scope that asks for it by itself.

        Args:
            signature: The op.
            blocker: What holds it.
        """
        resource = None
        if blocker.input is not None:
            resource = self._sidecar.resource_of(signature.inputs[blocker.input])
        if blocker.hold is Hold.REQUEST:
            scopes = _scopes_of_eager(self._sidecar, signature, blocker.asked)
        else:
            scopes = scopes_of_making(self._sidecar, resource)
        for scope in scopes or (None,):
            yield self._of_eager(signature, blocker, resource, scope)

    def _of_eager(
        self,
        signature: Signature,
        blocker: EagerBlocker,
        resource: Resource | None,
        scope: Scope | None,
    ) -> Held:
        sidecar = self._sidecar
        known = self._attributes_of(signature)
        return Held(
            hold=blocker.hold,
            link="own" if resource is None else "resource",
            type=signature.op,
            attributes={name: known.get(name) for name in blocker.attributes},
            asked=blocker.asked,
            frame=sidecar.frame(signature.frame),
            scope=None if scope is None else scope.device,
            scope_frame=None if scope is None else sidecar.frame(scope.frame),
            resource=resource,
            made_at=self._line_of_making(resource),
        )

    def of_node(self, placed: FunctionPlacement, node: int, blocker: Blocker) -> Iterator[Held]:
        """Walk what keeps a node of a graph from a GPU: each scope that asks for it by itself.

        Args:
            placed: The function it is in.
            node: The node.
            blocker: What holds it.
        """
        call = None if placed.call is None else self._sidecar.signatures[placed.call]
        if blocker.hold is Hold.DEFAULT_DEVICE and call is not None:
            for scope in _scopes_of_eager(self._sidecar, call, call.scope):
                yield self._of_node(placed, node, blocker, scope)
            return
        scopes: list[tuple[Scope, str]] = []
        if blocker.hold is Hold.ASSIGNED:
            making = scopes_of_making(self._sidecar, self._resource(placed, blocker))
            scopes = [(scope, "") for scope in making]
        elif blocker.hold in _BY_REQUEST:
            scopes = list(self._scopes(placed, blocker))
        for scope, called in scopes:
            yield self._of_node(placed, node, blocker, scope, called)
        if not scopes:
            yield self._of_node(placed, node, blocker)

    def _of_node(
        self,
        placed: FunctionPlacement,
        node: int,
        blocker: Blocker,
        asking: Scope | None = None,
        called_in: str = "",
    ) -> Held:
        graph = placed.placement.nodes.graph
        known = self._sidecar.attribute_set(graph.attributes[blocker.node])
        scope, frame = None, None
        if asking is not None:
            scope, frame = asking.device, self._sidecar.frame(asking.frame)
        call = None if placed.call is None else self._sidecar.signatures[placed.call]
        resource = self._resource(placed, blocker)
        return Held(
            hold=blocker.hold,
            link=self._link(placed, node, blocker.node),
            type=graph.ops[blocker.node],
            name=graph.names[blocker.node],
            function=_recorded_name(placed.function),
            attributes={name: known.get(name) for name in blocker.attributes},
            asked=blocker.asked,
            frame=self._frame(placed, blocker.node),
            scope=scope,
            scope_frame=frame,
            copied_from=self._copied_from(placed, blocker, scope),
            resource=resource,
            made_at=self._line_of_making(resource),
            call=call if blocker.hold is Hold.DEFAULT_DEVICE else None,
            called_in=called_in,
        )

    def _line_of_making(self, resource: Resource | None) -> Frame | None:
        if resource is None or resource.signature < 0:
            return None
        return self._sidecar.frame(self._sidecar.signatures[resource.signature].frame)

    def _attributes_of(self, signature: Signature) -> Attributes:
        """Return an eager op's attributes, with those that its inputs determine."""
        known = self._sidecar.attribute_set(signature.attributes)
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
        function = graph.origin_functions[node] or _recorded_name(placed.function)
        return function, graph.origin_nodes[node] or graph.names[node]

    def _frame(self, placed: FunctionPlacement, node: int) -> Frame | None:
        return self._sidecar.frame_of_node(*self._origin(placed, node))

    def _scopes(self, placed: FunctionPlacement, blocker: Blocker) -> Iterator[tuple[Scope, str]]:
        """Walk the scopes that ask for the device a node is held to, the innermost first.

        Without the innermost the next one would hold it. What asks for no device itself has that of
        the call that it was inlined from (`InlineFunctionBody`,
        core/common_runtime/inline_function_utils.cc).

        Yields:
            A scope, and the function that was called in it; "" where it is around the node itself.
        """
        function, name = self._origin(placed, blocker.node)
        own, is_end = self._scopes_around(function, name, blocker.asked)
        for scope in own:
            yield scope, ""
        caller = _recorded_name(placed.function)
        if function == caller or is_end:
            return
        inlined = placed.placement.nodes.graph.names[blocker.node].removesuffix(f"/{name}")
        for scope in self._scopes_around(caller, inlined, blocker.asked)[0]:
            yield scope, function

    def _scopes_around(
        self, function: str, node: str, asked: str
    ) -> tuple[tuple[Scope, ...], bool]:
        """Return the scopes around a node that ask for a device, and whether another ends them."""
        definition = self._sidecar.definition(function)
        at = -1 if definition is None else definition.index(node)
        scopes = None if definition is None or at < 0 else definition.scopes[at]
        return _asking([self._sidecar.scopes[number] for number in reversed(scopes or ())], asked)

    def _copied_from(self, placed: FunctionPlacement, blocker: Blocker, scope: str | None) -> str:
        """Return whose request a node has: `colocate_with` copies it, beside `_class`."""
        if blocker.hold not in _BY_REQUEST or scope is not None:
            return ""
        nodes = placed.placement.nodes
        own = nodes.graph.names[blocker.node]
        for group in nodes.classes.get(blocker.node, ()):
            at = nodes.graph.index(group)
            if (
                group != own
                and at >= 0
                and nodes.graph.devices[at] == (nodes.graph.devices[blocker.node])
            ):
                return group
        return ""

    def _resource(self, placed: FunctionPlacement, blocker: Blocker) -> Resource | None:
        """Return the resource that an argument of a function is bound to."""
        if blocker.hold is not Hold.ASSIGNED or placed.call is None:
            return None
        graph = placed.placement.nodes.graph
        index = self._sidecar.attribute_set(graph.attributes[blocker.node]).get("index")
        bound = self._sidecar.signatures[placed.call].inputs
        if isinstance(index, int) and index < len(bound):
            return self._sidecar.resource_of(bound[index])
        return None

    def _link(self, placed: FunctionPlacement, node: int, holder: int) -> Link:
        if holder == node:
            return "own"
        placement = placed.placement
        if placement.roots[holder] != placement.roots[node]:
            return "follows"
        nodes = placement.nodes
        bound = self._bound.get(id(nodes))
        if bound is None:
            bound = self._bound[id(nodes)] = _components(len(nodes), nodes.bound)
        return "resource" if bound[holder] == bound[node] else "class"


def scopes_of_making(sidecar: Sidecar, resource: Resource | None) -> tuple[Scope, ...]:
    """Return the scopes that a resource was made in, each of which asks for its device by itself.

    Returns:
        The innermost first; none where no scope asks for it, or none is recorded.
    """
    if resource is None or resource.signature < 0:
        return ()
    maker = sidecar.signatures[resource.signature]
    if not maker.scope or _type(maker.scope) != _type(resource.device):
        return ()
    return _scopes_of_eager(sidecar, maker, resource.device)


def _scopes_of_eager(sidecar: Sidecar, signature: Signature, asked: str) -> tuple[Scope, ...]:
    """Return the scopes that ask for the device of an eager op, or of a call: at least one.

    Of a line that is met again, as where a function calls itself, one.
    """
    around = [sidecar.scopes[number] for number in signature.scopes]
    by_line: dict[int, Scope] = {}
    for scope in _asking(around, asked)[0]:
        by_line.setdefault(scope.frame, scope)
    innermost = Scope(device=signature.scope, frame=signature.scope_frame)
    return tuple(by_line.values()) or (innermost,)


def _asking(scopes: Iterable[Scope], asked: str) -> tuple[tuple[Scope, ...], bool]:
    """Return which scopes ask for a type of device, and whether another ends them.

    Args:
        scopes: Scopes one around the other, the innermost first.
        asked: A device of that type.
    """
    found = []
    for scope in scopes:
        if _type(scope.device) == _type(asked):
            found.append(scope)
        elif _type(scope.device) or scope.device in _NO_DEVICE:
            return tuple(found), True
    return tuple(found), False


def _recorded_name(function: str) -> str:
    """Return the name that a function's definition is recorded under: none for a session's."""
    return "" if function == SESSION else function


def _components(count: int, edges: Iterable[Edge]) -> list[int]:
    """Return, for each node, the first of those that these edges join it with."""
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


def _type(device: str) -> str | None:
    """Return the type that a request names, as Python spells it: also `cpu:0` and `CPU`.

    See `DeviceSpecV2.from_string` (python/framework/device_spec.py).
    """
    match = _LAST_PART.search(device)
    return match[1].upper() if match else None
