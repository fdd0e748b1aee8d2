"""Finds the blockers of a node or an eager op by replaying its placement without them.

Blockers are removed in the order in which they take effect, until the op moves to a GPU. Blockers
that need not be removed are then dropped, so each of the others alone keeps the op on the CPU.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias

from traceanalyzer.placement.blocker import BY_REQUEST, Blocker, BlockerKind
from traceanalyzer.placement.devices import (
    ANYWHERE,
    GPU,
    DeviceName,
    DeviceNameError,
    Machine,
    is_of_type,
    parse_device,
)
from traceanalyzer.placement.eager import EagerOp, EagerSetting, place_eager
from traceanalyzer.placement.nodes import Edge
from traceanalyzer.placement.placer import Decision, Placement, Region, Setting
from traceanalyzer.placement.registry import SupportedTypes

_MANY: Final = 32  # similar blockers
_OF_KERNELS: Final = frozenset(
    {BlockerKind.NO_KERNEL, BlockerKind.ATTRIBUTES, BlockerKind.HOST_LIST, BlockerKind.PRIORITY}
)
# Places an op without some blockers; returns the next blockers, or None if the op is on a GPU.
_Attempt: TypeAlias = "Callable[[Sequence[Blocker]], Iterable[Blocker] | None]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blockers:
    """All blockers of an op."""

    found: tuple[Blocker, ...]  #: in the order in which they take effect; empty if it is on a GPU
    #: Whether the op moves without them. If not, something unknown keeps it off the GPU, too.
    is_complete: bool
    #: Names of the nodes that a node follows, the next one first: their blockers also block it.
    follows: tuple[str, ...] = ()


def _find(attempt: _Attempt) -> Blockers:
    """Remove blockers until an op moves to a GPU, then drop those that need not be removed."""
    found: list[Blocker] = []
    while (following := attempt(found)) is not None:
        known = {*found}
        more = [blocker for blocker in following if blocker not in known]
        if not more:
            return Blockers(found=tuple(found), is_complete=False)
        found += more
    needed = len(found) + 1
    while len(found) < needed:  # a blocker can become needless once another is dropped
        needed = len(found)
        for some in _tried_together(found):
            rest = [other for other in found if other not in some]
            if attempt(rest) is None:
                found = rest
    return Blockers(found=tuple(found), is_complete=True)


def _tried_together(found: Iterable[Blocker]) -> Iterator[set[Blocker]]:
    """Yield blockers one by one, but large groups of similar blockers together to save time."""
    kinds: dict[tuple[object, ...], list[Blocker]] = defaultdict(list)
    for each in found:
        kinds[each.kind, each.refused, each.requested_device].append(each)
    for alike in kinds.values():
        if len(alike) > _MANY:
            yield set(alike)
        else:
            yield from ({each} for each in sorted(alike, key=lambda each: each.node))


def _without_kernel(support: SupportedTypes, node: int = -1) -> Blocker | None:
    if GPU not in support.missing:
        return None
    refused = support.missing[GPU]
    kind = BlockerKind.ATTRIBUTES if refused else BlockerKind.NO_KERNEL
    return Blocker(kind=kind, node=node, refused=refused)


def _first_gpu(machine: Machine) -> str:
    return next(iter(machine.matching(DeviceName(type=GPU))), "")


class BlockerFinder:
    """Finds the blockers of a placement's nodes.

    To test a blocker, only a region of the graph is placed again without it: the node's colocation
    group, and the groups of the nodes that determine its device.
    """

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self._edges: dict[int, list[Edge]] = defaultdict(list)  # by root
        for edge in placement.nodes.bound:
            self._edges[placement.roots[edge.target]].append(edge)
        self._of_groups: dict[int, tuple[Blockers, set[int]]] = {}
        # Callers ask for all members of a group in turn.
        self._last: tuple[frozenset[int], Placement | None] = (frozenset(), None)

    def of(self, node: int) -> Blockers:
        """Find the blockers of a node."""
        found = self._of_group(node) or self._searched(node)[0]
        names = self._placement.nodes.graph.names
        return replace(found, follows=tuple(names[at] for at in self._placement.trail(node)))

    def _of_group(self, node: int) -> Blockers | None:
        """Return the blockers of a node's group, or None if the node's own blockers may differ.

        Removing a blocker can put two members into different groups, because soft placement
        ignores some colocations.
        """
        decisions, root = self._placement.decisions, self._placement.roots[node]
        if decisions[node] is not Decision.FIRST:
            return None
        if root not in self._of_groups:
            members = self._placement.members[root]
            first = next(m for m in members if decisions[m] is Decision.FIRST)
            self._of_groups[root] = self._searched(first)
        found, alike = self._of_groups[root]
        if node not in alike:
            return None
        default = BlockerKind.DEFAULT_DEVICE
        of_node = [replace(b, node=node) if b.kind is default else b for b in found.found]
        # A kernel that the node itself lacks takes effect first: see `_next`.
        of_node.sort(key=lambda b: b.node != node or b.kind not in _OF_KERNELS)
        return replace(found, found=tuple(of_node))

    def _searched(self, node: int) -> tuple[Blockers, set[int]]:
        """Return a node's blockers, and the members of its group that have the same blockers.

        The search covers the whole graph if the node's region does not suffice.
        """
        for placement in filter(None, (self._region(node), self._placement)):
            alike = {*placement.members[placement.roots[node]]}
            found = _find(partial(_attempt, placement, node, alike))
            if found.is_complete:
                break
        return found, alike

    def _region(self, node: int) -> Placement | None:
        """Place a node's region again, or return None if nodes outside it affect the result."""
        whole = self._placement
        roots = frozenset(whole.roots[deciding] for deciding in self._deciding(node))
        if self._last[0] == roots:
            return self._last[1]
        inside = {member for root in roots for member in whole.members[root]}
        nodes = whole.nodes
        beside = {nodes.followers[at] for at in inside if at in nodes.followers}
        beside.update(consumer for at in inside for consumer in nodes.consumers.get(at, ()))
        bound = [edge for root in roots for edge in self._edges[root] if {*edge} <= inside]
        around = {at: whole.devices[at] for at in beside - inside}
        region = Region(sorted(inside), around, sorted(bound, key=lambda edge: edge.target))
        placed = Placement(nodes, whole.setting, region)
        is_faithful = not whole.ignored and all(
            placed.devices[at] == whole.devices[at] and placed.decisions[at] is whole.decisions[at]
            for at in inside
        )
        self._last = (roots, placed if is_faithful else None)
        return self._last[1]

    def _deciding(self, node: int) -> Iterator[int]:
        """Yield a node, the nodes it follows, and the consumers that determine their devices."""
        yield node
        for followed in self._placement.trail(node):
            if self._placement.decisions[node] is Decision.CONSUMERS:
                yield from self._placement.nodes.consumers[node]
            yield followed
            node = followed


def _attempt(
    placement: Placement, node: int, alike: set[int], removed: Sequence[Blocker]
) -> Iterable[Blocker] | None:
    tried, gpu = placement, _first_gpu(placement.setting.machine)
    if removed:
        setting = without(placement.setting, removed, gpu)
        tried = Placement(placement.nodes, setting, placement.region)
        alike -= {at for at in alike if tried.devices[at] != tried.devices[node]}
    is_refused = bool(tried.failures) and not placement.failures
    if not is_refused and is_of_type(tried.devices[node], GPU):
        return None
    return _next(tried, (node, *tried.trail(node))[-1]) if gpu else ()


def without(setting: Setting, removed: Sequence[Blocker], device: str) -> Setting:
    """Return the setting without some blockers. `device` replaces assigned and default devices."""
    has_default = any(b.kind is BlockerKind.DEFAULT_DEVICE for b in removed)
    assigned = {b.node: device for b in removed if b.kind is BlockerKind.ASSIGNED}
    return replace(
        setting,
        kernels=setting.kernels.union(b.node for b in removed if b.kind in _OF_KERNELS),
        requests={**setting.requests, **{b.node: "" for b in removed if b.kind in BY_REQUEST}},
        assigned={**setting.assigned, **assigned},
        default_device=device if has_default else setting.default_device,
    )


def _next(placement: Placement, node: int) -> Iterator[Blocker]:
    """Yield a node's blockers of one kind, the kind that takes effect first."""
    if node in placement.region.around:  # its blockers are outside the region
        return
    setting, support = placement.setting, placement.nodes.support
    members = placement.members[placement.roots[node]]
    ordered = (node, *(member for member in members if member != node))
    if kernels := [b for m in ordered if (b := _kernel_of(placement, m))]:
        yield from kernels
        return
    elsewhere = [b for m in ordered if (b := _elsewhere(placement, m))]
    for kind in (BlockerKind.ASSIGNED, BlockerKind.RESOURCE, BlockerKind.REQUEST):
        if of_kind := [b for b in elsewhere if b.kind is kind]:
            yield from of_kind
            return
    default = setting.default_device
    if default == placement.devices[node] and placement.decisions[node] is Decision.FIRST:
        yield Blocker(kind=BlockerKind.DEFAULT_DEVICE, node=node, requested_device=default)
        return
    for member in ordered:
        if member not in setting.kernels and any(priority for _, priority in support[member].types):
            yield Blocker(kind=BlockerKind.PRIORITY, node=member)


def _kernel_of(placement: Placement, node: int) -> Blocker | None:
    if node in placement.setting.kernels:
        return None
    found = _without_kernel(placement.nodes.support[node], node)
    if found is None and node in placement.nodes.host_lists:
        return Blocker(kind=BlockerKind.HOST_LIST, node=node)
    return found


def _elsewhere(placement: Placement, node: int) -> Blocker | None:
    setting, nodes = placement.setting, placement.nodes
    kind = BlockerKind.RESOURCE if node in nodes.resource_makers else BlockerKind.REQUEST
    if node in setting.assigned:
        kind = BlockerKind.ASSIGNED
    try:
        name = parse_device(setting.assigned.get(node) or setting.requested(nodes.graph, node))
    except DeviceNameError:  # reported as a failure of the placement
        return None
    if name is ANYWHERE or name.type in {None, GPU}:
        return None
    return Blocker(kind=kind, node=node, requested_device=str(name))


def eager_blockers(op: EagerOp, setting: EagerSetting) -> Blockers:
    """Find the blockers of an eager op."""
    gpu = _first_gpu(setting.machine)

    def attempt(removed: Sequence[Blocker]) -> Iterable[Blocker] | None:
        kinds = {blocker.kind for blocker in removed}
        inputs = list(op.inputs)
        for at in (blocker.input for blocker in removed):
            if at is not None:
                inputs[at] = inputs[at]._replace(device=gpu)
        tried = place_eager(
            op._replace(inputs=inputs, scope="" if BlockerKind.REQUEST in kinds else op.scope),
            replace(setting, pins_small=False) if BlockerKind.SMALL_INPUTS in kinds else setting,
            has_kernels=not kinds.isdisjoint(_OF_KERNELS),
        )
        if is_of_type(tried.device, GPU):
            return None
        if not gpu:
            return ()
        if blocker := _without_kernel(tried.support):
            return [blocker]
        if tried.decided_by is BlockerKind.REQUEST:
            return [Blocker(kind=BlockerKind.REQUEST, requested_device=op.scope)]
        if tried.decided_by is not BlockerKind.RESOURCE:
            return [Blocker(kind=tried.decided_by)]
        return [
            Blocker(kind=BlockerKind.RESOURCE, input=at, requested_device=each.device)
            for at, each in enumerate(inputs)
            if each.dtype == "resource" and not is_of_type(each.device, GPU)
        ]

    return _find(attempt)
