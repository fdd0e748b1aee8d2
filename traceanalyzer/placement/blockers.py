"""Finds the blockers of a node or an eager op by replaying its placement without them.

Several blockers can stack: cast an op's input, and a request still pins the op. They are removed in
the order in which they take effect, until the op moves. Then the blockers that need not have been
removed are dropped. Each remaining blocker alone keeps the op on the CPU.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from traceanalyzer.placement.blocker import Blocker, BlockerKind
from traceanalyzer.placement.devices import (
    ANYWHERE,
    GPU,
    DeviceName,
    DeviceNameError,
    Machine,
    is_of_type,
    parse_device,
)
from traceanalyzer.placement.eager import EagerSetting, place_eager
from traceanalyzer.placement.placer import Decision, Placement, Region, Setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from traceanalyzer.placement.eager import EagerOp
    from traceanalyzer.placement.nodes import Edge
    from traceanalyzer.placement.registry import SupportedTypes

_MANY: Final = 32  # similar blockers
_OF_KERNELS: Final = frozenset(
    {BlockerKind.NO_KERNEL, BlockerKind.ATTRIBUTES, BlockerKind.HOST_LIST, BlockerKind.PRIORITY}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blockers:
    """All blockers of an op."""

    found: tuple[Blocker, ...]  #: in the order in which they take effect; empty if it is on a GPU
    #: Whether the op moves without them. If not, something unknown keeps it off the GPU, too.
    is_complete: bool
    #: The nodes that a node follows, the next one first: their blockers also block the node.
    follows: tuple[int, ...] = ()


def _find(search: _NodeSearch | _EagerSearch) -> Blockers:
    """Remove blockers until an op moves, then drop those that need not be removed."""
    found: list[Blocker] = []
    while not search.moves_without(found):
        known = {*found}
        more = [blocker for blocker in search.next() if blocker not in known]
        if not more:
            return Blockers(found=tuple(found), is_complete=False)
        found += more
    needed = len(found) + 1
    while len(found) < needed:  # a blocker can become needless once another is dropped
        needed = len(found)
        for some in _tried_together(found):
            rest = [other for other in found if other not in some]
            if search.moves_without(rest):
                found = rest
    return Blockers(found=tuple(found), is_complete=True)


def _tried_together(found: Iterable[Blocker]) -> Iterator[set[Blocker]]:
    """Walk blockers one by one, but many similar ones together.

    If hundreds of nodes of a group request the same device, trying each takes quadratic time.
    """
    kinds: dict[tuple[BlockerKind, tuple[str, ...], str], list[Blocker]] = {}
    for each in found:
        kinds.setdefault((each.kind, each.refused, each.requested_device), []).append(each)
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


# --- Nodes of graphs ------------------------------------------------------------------------------


class BlockerFinder:
    """Finds what keeps the nodes of one placement off the GPU.

    To try a placement without a blocker, a node is placed with its colocation group and the groups
    of all nodes that it follows or whose choice it follows. No other node affects it. Nodes outside
    this region keep their devices.
    """

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self._members: dict[int, list[int]] = {}  # by root, in the graph's order
        for at, root in placement.roots.items():
            self._members.setdefault(root, []).append(at)
        self._edges: dict[int, list[Edge]] = {}
        for edge in placement.nodes.bound:
            self._edges.setdefault(placement.roots[edge.target], []).append(edge)
        self._of_groups: dict[int, tuple[Blockers, frozenset[int]]] = {}
        # Callers ask for all members of a group in turn.
        self._last: tuple[frozenset[int], Placement | None] = (frozenset(), None)

    def of(self, node: int) -> Blockers:
        """Find all that keeps a node off the GPU."""
        found = self._of_group(node) or self._searched(node)[0]
        return replace(found, follows=tuple(self._placement.trail(node)))

    def _of_group(self, node: int) -> Blockers | None:
        """Return the blockers of the first such member of a node's group, if they block the node.

        This saves searching for each of hundreds of members. Two members of a group need not be in
        one group without a blocker: soft placement may have ignored another colocation.
        """
        placement = self._placement
        if placement.decisions[node] is not Decision.FIRST:
            return None
        root = placement.roots[node]
        if root not in self._of_groups:
            members = self._members[root]
            first = next(m for m in members if placement.decisions[m] is Decision.FIRST)
            self._of_groups[root] = self._searched(first)
        found, alike = self._of_groups[root]
        if node not in alike:
            return None
        default = BlockerKind.DEFAULT_DEVICE
        of_node = [replace(b, node=node) if b.kind is default else b for b in found.found]
        # A kernel that the node itself lacks takes effect first: see `_next_of_node`.
        of_node.sort(key=lambda b: b.node != node or b.kind not in _OF_KERNELS)
        return replace(found, found=tuple(of_node))

    def _searched(self, node: int) -> tuple[Blockers, frozenset[int]]:
        """Search in the region of a node; in the whole graph if that does not suffice."""
        members = self._members[self._placement.roots[node]]
        for placement in filter(None, (self._region(node), self._placement)):
            search = _NodeSearch(placement, node, members)
            found = _find(search)
            if found.is_complete:
                break
        return found, frozenset(search.alike)

    def _region(self, node: int) -> Placement | None:
        """Place only the region that decides where a node is.

        None if its nodes are not placed as in the whole graph: then other nodes affect it.
        """
        whole = self._placement
        roots = frozenset(whole.roots[deciding] for deciding in self._deciding(node))
        if self._last[0] == roots:
            return self._last[1]
        inside = {member for root in roots for member in self._members[root]}
        nodes = whole.nodes
        beside = {nodes.followers[at] for at in inside if at in nodes.followers}
        beside.update(consumer for at in inside for consumer in nodes.consumers.get(at, ()))
        edges = [edge for root in roots for edge in self._edges.get(root, ())]
        bound = [each for each in edges if {*each} <= inside]
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
        """Walk a node, the nodes that it follows, and all others that affect these."""
        yield node
        for followed in self._placement.trail(node):
            if self._placement.decisions[node] is Decision.CONSUMERS:
                yield from self._placement.nodes.consumers[node]
            yield followed
            node = followed


class _NodeSearch:
    def __init__(self, placement: Placement, node: int, members: Iterable[int]) -> None:
        self._placement = placement
        self._node = node
        self._gpu = _first_gpu(placement.setting.machine)
        self._tried = placement
        #: Group members that got the node's device in each attempt: they have the same blockers.
        self.alike = {*members}

    def moves_without(self, removed: Sequence[Blocker]) -> bool:
        """Return whether TensorFlow then accepts the graph and places the node on a GPU."""
        before = self._tried = self._placement
        if removed:
            setting = without(before.setting, removed, self._gpu)
            self._tried = Placement(before.nodes, setting, before.region)
            device = self._tried.devices[self._node]
            self.alike = {at for at in self.alike if self._tried.devices[at] == device}
        is_refused = bool(self._tried.failures) and not before.failures
        return not is_refused and is_of_type(self._tried.devices[self._node], GPU)

    def next(self) -> list[Blocker]:
        """Return the blockers that take effect next, after what was tried last."""
        focus = (self._node, *self._tried.trail(self._node))[-1]
        return _next_of_node(self._tried, focus) if self._gpu else []


def without(setting: Setting, removed: Iterable[Blocker], device: str) -> Setting:
    """Return a setting without blockers: `device` replaces assigned and default devices."""
    kernels = set(setting.kernels)
    requests, assigned = dict(setting.requests), dict(setting.assigned)
    default = setting.default_device
    for blocker in removed:
        if blocker.kind in _OF_KERNELS:
            kernels.add(blocker.node)
        elif blocker.kind is BlockerKind.ASSIGNED:
            assigned[blocker.node] = device
        elif blocker.kind is BlockerKind.DEFAULT_DEVICE:
            default = device
        else:
            requests[blocker.node] = ""
    return replace(
        setting,
        kernels=frozenset(kernels),
        requests=requests,
        assigned=assigned,
        default_device=default,
    )


def _next_of_node(placement: Placement, node: int) -> list[Blocker]:
    """Return the node's next blockers: all blockers of the first kind that it has."""
    if node in placement.region.around:  # its blockers are outside the region
        return []
    root, default = placement.roots[node], placement.setting.default_device
    ordered = (node, *(m for m, its in placement.roots.items() if its == root and m != node))
    if kernels := [b for m in ordered if (b := _kernel_of(placement, m))]:
        return kernels
    elsewhere = [b for m in ordered if (b := _elsewhere(placement, m))]
    for kind in (BlockerKind.ASSIGNED, BlockerKind.RESOURCE, BlockerKind.REQUEST):
        if of_kind := [b for b in elsewhere if b.kind is kind]:
            return of_kind
    if default == placement.devices[node] and placement.decisions[node] is Decision.FIRST:
        return [Blocker(kind=BlockerKind.DEFAULT_DEVICE, node=node, requested_device=default)]
    return [
        Blocker(kind=BlockerKind.PRIORITY, node=m)
        for m in ordered
        if m not in placement.setting.kernels
        and any(priority for _, priority in placement.nodes.support[m].types)
    ]


def _kernel_of(placement: Placement, node: int) -> Blocker | None:
    if node in placement.setting.kernels:
        return None
    found = _without_kernel(placement.nodes.support[node], node)
    if found is None and node in placement.nodes.host_lists:
        return Blocker(kind=BlockerKind.HOST_LIST, node=node)
    return found


def _elsewhere(placement: Placement, node: int) -> Blocker | None:
    """Return the request or assignment that puts a node on another type of device."""
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


# --- Eager ops ------------------------------------------------------------------------------------


def eager_blockers(op: EagerOp, setting: EagerSetting) -> Blockers:
    """Find all that keeps an eager op off the GPU."""
    return _find(_EagerSearch(op, setting))


class _EagerSearch:
    def __init__(self, op: EagerOp, setting: EagerSetting) -> None:
        self._op = op
        self._setting = setting
        self._gpu = _first_gpu(setting.machine)
        self._tried = place_eager(op, setting)

    def moves_without(self, removed: Sequence[Blocker]) -> bool:
        """Return whether the op is on a GPU then."""
        setting, inputs = self._setting, list(self._op.inputs)
        scope, has_kernels = self._op.scope, False
        for blocker in removed:
            if blocker.kind in _OF_KERNELS:
                has_kernels = True
            elif blocker.input is not None:
                inputs[blocker.input] = replace(inputs[blocker.input], device=self._gpu)
            elif blocker.kind is BlockerKind.SMALL_INPUTS:
                setting = replace(setting, pins_small=False)
            else:
                scope = ""
        changed = self._op._replace(inputs=inputs, scope=scope)
        self._tried = place_eager(changed, setting, has_kernels=has_kernels)
        return is_of_type(self._tried.device, GPU)

    def next(self) -> list[Blocker]:
        """Return the blockers that take effect next, after what was tried last."""
        if not self._gpu:
            return []
        if blocker := _without_kernel(self._tried.support):
            return [blocker]
        decided_by = self._tried.decided_by
        if decided_by is BlockerKind.REQUEST:
            return [Blocker(kind=BlockerKind.REQUEST, requested_device=self._op.scope)]
        if decided_by is not BlockerKind.RESOURCE:
            return [Blocker(kind=decided_by)]
        return [
            Blocker(kind=BlockerKind.RESOURCE, input=at, requested_device=each.device)
            for at, each in enumerate(self._op.inputs)
            if each.dtype == "resource" and not is_of_type(each.device, GPU)
        ]
