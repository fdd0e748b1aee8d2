"""Finds what keeps a node or an eager op off a type of device, by trying what would happen without.

Several blockers can stack: cast an op's input, and a request still pins the op. They are removed in
the order in which they take effect, until the op moves; those that need not have been removed are
dropped again. Each one of the rest is needed: with any of them in place the op stays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from traceanalyzer.placement.blocker import Blocker, BlockerKind
from traceanalyzer.placement.devices import (
    ANYWHERE,
    CPU,
    GPU,
    DeviceName,
    DeviceNameError,
    Machine,
    is_of_type,
    parse_device,
)
from traceanalyzer.placement.eager import EagerDecision, EagerSetting, place_eager
from traceanalyzer.placement.placer import Changes, Decision, place
from traceanalyzer.placement.region import Regions, trail

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from traceanalyzer.placement.eager import EagerOp, EagerPlacement
    from traceanalyzer.placement.placer import Placement
    from traceanalyzer.placement.registry import SupportedTypes

_MANY: Final = 32  # blockers that are alike
_OF_KERNELS: Final = frozenset(
    {BlockerKind.NO_KERNEL, BlockerKind.ATTRIBUTES, BlockerKind.HOST_LIST, BlockerKind.PRIORITY}
)
_State = TypeVar("_State")


@dataclass(frozen=True, slots=True, kw_only=True)
class Blockers:
    """All that keeps an op off a type of device."""

    #: In the order in which they take effect; none if the op is there.
    found: tuple[Blocker, ...]
    #: Whether the op moves without them. If not, something unknown keeps it off as well.
    is_complete: bool
    #: The nodes that a node follows, the next one first: their blockers are its own.
    follows: tuple[int, ...] = ()


class _Search(Protocol[_State]):
    """An op whose blockers are searched for; `before` is where it is with all of them."""

    before: _State

    def without(self, removed: Sequence[Blocker]) -> _State:
        """Place the op without some blockers."""

    def has_moved(self, state: _State) -> bool:
        """Return whether the op is on the device."""

    def next(self, state: _State, found: Sequence[Blocker]) -> list[Blocker]:
        """Return the blockers that take effect next, beside those found."""


def _find(search: _Search[_State]) -> Blockers:
    """Remove blockers until an op moves, then drop those that need not be removed."""
    found: list[Blocker] = []
    current = search.before
    while not search.has_moved(current):
        more = search.next(current, found)
        if not more:
            return Blockers(found=tuple(found), is_complete=False)
        found += more
        current = search.without(found)
    needed = len(found) + 1
    while len(found) < needed:  # one that was needed beside another may not be without it
        needed = len(found)
        for some in _tried_together(found):
            rest = [other for other in found if other not in some]
            if search.has_moved(search.without(rest)):
                found = rest
    return Blockers(found=tuple(found), is_complete=True)


def _tried_together(found: Iterable[Blocker]) -> list[set[Blocker]]:
    """Return blockers one by one, but many that are alike together.

    If hundreds of a group request the same device, each blocks it as the others do; to try each
    takes the square of their number.
    """
    kinds: dict[tuple[BlockerKind, tuple[str, ...], str], list[Blocker]] = {}
    for each in found:
        kinds.setdefault((each.kind, each.refused, each.requested_device), []).append(each)
    return [
        some
        for alike in kinds.values()
        for some in (
            [set(alike)]
            if len(alike) > _MANY
            else [{each} for each in sorted(alike, key=lambda each: each.node)]
        )
    ]


def _without_kernel(support: SupportedTypes, device_type: str, node: int = -1) -> Blocker | None:
    for kind, attributes in support.missing:
        if kind == device_type:
            why = BlockerKind.ATTRIBUTES if attributes else BlockerKind.NO_KERNEL
            return Blocker(kind=why, node=node, refused=attributes)
    return None


def _first_of(machine: Machine, device_type: str) -> str:
    return next(iter(machine.matching(DeviceName(type=device_type))), "")


# --- Nodes of graphs ------------------------------------------------------------------------------


class BlockerFinder:
    """Finds what keeps the nodes of one placement off a type of device."""

    def __init__(self, placement: Placement, device_type: str = GPU) -> None:
        self._placement = placement
        self._type = device_type
        self._regions = Regions(placement)
        self._of_groups: dict[int, tuple[Blockers, frozenset[int]]] = {}

    def of(self, node: int) -> Blockers:
        """Find all that keeps a node off the device."""
        found = self._of_group(node) or self._searched(node)[0]
        return replace(found, follows=tuple(trail(self._placement, node)))

    def _of_group(self, node: int) -> Blockers | None:
        """Return what blocks the first such member of a node's group, if it blocks the node too.

        Of a group of hundreds, one is searched for. That two are a group now does not mean that
        they would be without a blocker: soft placement may have ignored what else one of them is
        colocated with.
        """
        placement = self._placement
        if placement.decisions[node] is not Decision.FIRST:
            return None
        root = placement.roots[node]
        if root not in self._of_groups:
            members = self._regions.members(node)
            first = next(m for m in members if placement.decisions[m] is Decision.FIRST)
            self._of_groups[root] = self._searched(first)
        found, alike = self._of_groups[root]
        if node not in alike:
            return None
        of_node = [
            replace(b, node=node) if b.kind is BlockerKind.DEFAULT_DEVICE else b
            for b in found.found
        ]
        # What the node lacks itself bites first: see `_bites`.
        of_node.sort(key=lambda b: b.node != node or b.kind not in _OF_KERNELS)
        return replace(found, found=tuple(of_node))

    def _searched(self, node: int) -> tuple[Blockers, frozenset[int]]:
        """Search in the region of a node; in the whole graph if that does not suffice."""
        part = self._regions.of(node)
        members = self._regions.members(node)
        for placement in ([part.placement] if part.is_faithful else []) + [self._placement]:
            search = _NodeSearch(placement, node, self._type, members)
            found = _find(search)
            if found.is_complete:
                break
        return found, frozenset(search.alike)


class _NodeSearch:
    """A search for the blockers of a node.

    `alike` holds those of its group that went where it went in all that was tried: the same blocks
    them.
    """

    def __init__(
        self, placement: Placement, node: int, device_type: str, members: Iterable[int]
    ) -> None:
        self.before = placement
        self._node = node
        self._type = device_type
        self._goal = _first_of(placement.setting.machine, device_type)
        self.alike = {*members}

    def without(self, removed: Sequence[Blocker]) -> Placement:
        changes = without(self.before.changes, removed, self._goal)
        after = place(self.before.nodes, self.before.setting, changes, self.before.region)
        at_node = after.devices[self._node]
        self.alike.intersection_update([at for at in self.alike if after.devices[at] == at_node])
        return after

    def has_moved(self, state: Placement) -> bool:
        """Return whether the node is there, in a graph that TensorFlow would not refuse."""
        is_refused = bool(state.failures) and not self.before.failures
        return not is_refused and is_of_type(state.devices[self._node], self._type)

    def next(self, state: Placement, found: Sequence[Blocker]) -> list[Blocker]:
        if not self._goal:
            return []
        focus = (self._node, *trail(state, self._node))[-1]
        known = {*found}
        return [each for each in _next_of_node(state, focus, self._type) if each not in known]


def without(changes: Changes, removed: Iterable[Blocker], device: str) -> Changes:
    """Return what would be different without some blockers, beside what is different already.

    Args:
        device: Where what is assigned elsewhere would be, and the default device.
    """
    kernels = set(changes.kernels)
    requests, assigned = dict(changes.requests), dict(changes.assigned)
    default = changes.default_device
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
        changes,
        kernels=frozenset(kernels),
        requests=requests,
        assigned=assigned,
        default_device=default,
    )


def _next_of_node(placement: Placement, node: int, device_type: str) -> list[Blocker]:
    """Return what keeps a node off a type of device next: all of the first kind there is."""
    if node in placement.region.around:  # what keeps it there is not in the region
        return []
    root = placement.roots[node]
    ordered = (node, *(m for m, its in placement.roots.items() if its == root and m != node))
    kernels = [b for m in ordered if (b := _kernel_of(placement, m, device_type))]
    if kernels:
        return kernels
    elsewhere = [b for m in ordered if (b := _elsewhere(placement, m, device_type))]
    for kind in (BlockerKind.ASSIGNED, BlockerKind.RESOURCE, BlockerKind.REQUEST):
        of_kind = [b for b in elsewhere if b.kind is kind]
        if of_kind:
            return of_kind
    default = placement.changes.default_device
    default = placement.setting.default_device if default is None else default
    if default == placement.devices[node] and placement.decisions[node] is Decision.FIRST:
        return [Blocker(kind=BlockerKind.DEFAULT_DEVICE, node=node, requested_device=default)]
    prioritised = [m for m in ordered if any(p for _, p in placement.nodes.support[m].types)]
    return [
        Blocker(kind=BlockerKind.PRIORITY, node=m)
        for m in prioritised
        if m not in placement.changes.kernels
    ]


def _kernel_of(placement: Placement, node: int, device_type: str) -> Blocker | None:
    if node in placement.changes.kernels:
        return None
    found = _without_kernel(placement.nodes.support[node], device_type, node)
    if found is None and node in placement.nodes.host_lists and device_type != CPU:
        return Blocker(kind=BlockerKind.HOST_LIST, node=node)
    return found


def _elsewhere(placement: Placement, node: int, device_type: str) -> Blocker | None:
    """Return the request or assignment that puts a node on another type of device."""
    changes, setting = placement.changes, placement.setting
    device = changes.assigned.get(node, setting.assigned.get(node))
    kind = BlockerKind.ASSIGNED
    if device is None:
        device = changes.requests.get(node, placement.nodes.graph.devices[node])
        is_maker = node in placement.nodes.resource_makers
        kind = BlockerKind.RESOURCE if is_maker else BlockerKind.REQUEST
    try:
        name = parse_device(device)
    except DeviceNameError:  # reported as a failure of the placement
        return None
    if name is ANYWHERE or name.type in {None, device_type}:
        return None
    return Blocker(kind=kind, node=node, requested_device=str(name))


# --- Eager ops ------------------------------------------------------------------------------------


def eager_blockers(op: EagerOp, setting: EagerSetting, device_type: str = GPU) -> Blockers:
    """Find all that keeps an eager op off a type of device."""
    return _find(_EagerSearch(op, setting, device_type))


class _EagerSearch:
    def __init__(self, op: EagerOp, setting: EagerSetting, device_type: str) -> None:
        self._op = op
        self._setting = setting
        self._type = device_type
        self._goal = _first_of(setting.machine, device_type)
        self.before = self.without(())

    def without(self, removed: Sequence[Blocker]) -> EagerPlacement:
        setting, inputs = self._setting, list(self._op.inputs)
        scope, has_kernels = self._op.scope, False
        for blocker in removed:
            if blocker.kind in _OF_KERNELS:
                has_kernels = True
            elif blocker.input is not None:
                inputs[blocker.input] = replace(inputs[blocker.input], device=self._goal)
            elif blocker.kind is BlockerKind.SMALL_INPUTS:
                setting = replace(setting, pins_small=False)
            else:
                scope = ""
        changed = self._op._replace(inputs=inputs, scope=scope)
        return place_eager(changed, setting, has_kernels=has_kernels)

    def has_moved(self, state: EagerPlacement) -> bool:
        return is_of_type(state.device, self._type)

    def next(self, state: EagerPlacement, found: Sequence[Blocker]) -> list[Blocker]:
        if not self._goal:
            return []
        blocker = _without_kernel(state.support, self._type)
        if blocker is None:
            blocker = self._beside_kernels(state, found)
        return [] if blocker is None else [blocker]

    def _beside_kernels(self, state: EagerPlacement, found: Sequence[Blocker]) -> Blocker | None:
        op = self._op
        if state.input is not None:
            removed = {blocker.input for blocker in found}
            left = (
                Blocker(kind=BlockerKind.RESOURCE, input=at, requested_device=each.device)
                for at, each in enumerate(op.inputs)
                if each.dtype == "resource"
                and at not in removed
                and not is_of_type(each.device, self._type)
            )
            return next(left, None)
        if state.decision is EagerDecision.SMALL_INPUTS:
            return Blocker(kind=BlockerKind.SMALL_INPUTS)
        if state.decision is EagerDecision.FIRST:
            blocker = Blocker(kind=BlockerKind.PRIORITY)
        else:
            blocker = Blocker(kind=BlockerKind.REQUEST, requested_device=op.scope)
        return None if blocker in found else blocker
