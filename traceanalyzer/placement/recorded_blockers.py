"""Adds the recorded lines, scopes, and resources to the blockers of an op."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, NamedTuple

from traceanalyzer.capture_file.document import (
    Attributes,
    CaptureFile,
    Frame,
    Resource,
    Scope,
    Signature,
)
from traceanalyzer.placement.blocker import BY_REQUEST, Blocker, BlockerKind, Link
from traceanalyzer.placement.calls import functions_of_steps, nodes_of_models
from traceanalyzer.placement.devices import GPU
from traceanalyzer.placement.kernel_tables import InputTypesError
from traceanalyzer.placement.kernel_types import all_on_host
from traceanalyzer.placement.program import FunctionPlacement
from traceanalyzer.placement.registry import Registry
from traceanalyzer.placement.retyping import VariableUses
from traceanalyzer.placement.scopes import (
    colocated_request,
    origin_of,
    scopes_of_eager,
    scopes_of_making,
    scopes_of_node,
)

# The type whose variables are always on the CPU: others can have a GPU kernel.
_WITHOUT_KERNEL: Final = "int32"
_ADDS_A_VARIABLE: Final = "add_weight"


class Site(NamedTuple):
    """The source lines that created an op, and its attributes."""

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
        self._uses = VariableUses(capture_file)
        self._of_steps = functions_of_steps(capture_file)
        self._of_models = nodes_of_models(capture_file)

    def of_eager(self, signature: Signature, blocker: Blocker) -> Iterator[Blocker]:
        """Yield an eager op's blocker with recorded facts, once for each scope that caused it."""
        capture_file = self._capture_file
        resource, link = None, "own"
        if blocker.input is not None:
            resource = capture_file.resource_of(signature.inputs[blocker.input])
            link = "own" if resource is None else "resource"
        if blocker.kind is BlockerKind.REQUEST:
            scopes = scopes_of_eager(capture_file, signature, blocker.requested_device)
        else:
            scopes = scopes_of_making(capture_file, resource)
        outputs = (capture_file.resource_of(tensor) for tensor in signature.outputs)
        made = resource or next(filter(None, outputs), None)
        more = {"link": link, "made_in": self._maker_of(made)[1], "types": self._types_of(made)}
        site = self.eager_site(signature)
        return self._recorded(blocker, site, resource, [(scope, "") for scope in scopes], more)

    def of_node(self, placed: FunctionPlacement, node: int, blocker: Blocker) -> Iterator[Blocker]:
        """Yield a node's blocker with recorded facts, once for each scope that caused it."""
        capture_file, graph = self._capture_file, placed.placement.nodes.graph
        at, kind = blocker.node, blocker.kind
        resource = self._resource(placed, blocker)
        site = self.node_site(placed, at)
        more: dict[str, Any] = {"link": self._link(placed, node, at)}
        more["for_step"] = placed.function in self._of_steps
        more["of_model"] = site.name in self._of_models.get(placed.function, ())
        if site.type == "VarHandleOp" and site.given.get("dtype") == _WITHOUT_KERNEL:
            more["types"] = self._uses.types_of_node(graph, at, _WITHOUT_KERNEL)
        scopes: Sequence[tuple[Scope, str]] = ()
        if kind is BlockerKind.DEFAULT_DEVICE and placed.call is not None:
            call = more["call"] = capture_file.signatures[placed.call]
            scopes = [(each, "") for each in scopes_of_eager(capture_file, call, call.scope)]
        elif kind is BlockerKind.ASSIGNED:
            scopes = [(each, "") for each in scopes_of_making(capture_file, resource)]
        elif kind in BY_REQUEST:
            requested = blocker.requested_device
            scopes = [*scopes_of_node(capture_file, placed.function, graph, at, requested)]
            copied = -1 if scopes else colocated_request(capture_file, graph, at)
            more["copied_from"] = "" if copied < 0 else graph.names[copied]
        return self._recorded(blocker, site, resource, scopes, more)

    def _recorded(
        self,
        blocker: Blocker,
        site: Site,
        resource: Resource | None,
        scopes: Sequence[tuple[Scope, str]],
        more: dict[str, Any],
    ) -> Iterator[Blocker]:
        """Yield a blocker once per scope and called function, or once if there are no scopes."""
        made_at, made_in = self._maker_of(resource)
        found = replace(
            blocker,
            node=-1,
            input=None,
            type=site.type,
            name=site.name,
            function=site.function,
            frame=site.frame,
            given=site.given,
            attributes={name: site.given.get(name) for name in blocker.refused},
            resource=resource,
            made_at=made_at,
            **{"made_in": made_in, "types": self._types_of(resource), **more},
        )
        for scope, called_in in scopes:
            frame = self._capture_file.frame(scope.frame)
            yield replace(found, scope=scope.device, scope_frame=frame, called_in=called_in)
        if not scopes:
            yield found

    def in_host_memory(self, site: Site, device: str) -> Blocker | None:
        """Return the blocker of an op that is placed on a GPU but computed by the host, or None."""
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
        )

    def eager_site(self, signature: Signature) -> Site:
        """Return an eager op's site, with attributes completed from its inputs."""
        known = self._capture_file.attribute_set(signature.attributes)
        definition = self._registry.definition(signature.op)
        if definition is not None:
            with suppress(InputTypesError):
                known = definition.of_inputs([t.dtype for t in signature.inputs], known)
        frame = self._capture_file.frame(signature.frame)
        library = self._capture_file.frame(signature.library)
        return Site(signature.op, "", "", frame, library, known)

    def node_site(self, placed: FunctionPlacement, node: int) -> Site:
        """Return a node's site."""
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
        """Return the user's line and the library's line that created a resource, if known."""
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
        return self._uses.types_of_resource(resource)

    def _resource(self, placed: FunctionPlacement, blocker: Blocker) -> Resource | None:
        if blocker.kind is not BlockerKind.ASSIGNED or placed.call is None:
            return None
        graph = placed.placement.nodes.graph
        index = self._capture_file.attribute_set(graph.attributes[blocker.node]).get("index")
        bound = self._capture_file.signatures[placed.call].inputs
        if isinstance(index, int) and index < len(bound):
            return self._capture_file.resource_of(bound[index])
        return None

    def _link(self, placed: FunctionPlacement, node: int, blocked: int) -> Link:
        if blocked == node:
            return "own"
        roots, bound = placed.placement.roots, placed.placement.bound
        if roots[blocked] != roots[node]:
            return "follows"
        return "resource" if bound[blocked] == bound[node] else "class"
