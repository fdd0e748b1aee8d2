"""What keeps a node from a type of device, all of it, by trying what would happen without.

A node can be held in several ways at once: cast it, and it is still pinned by a request. Each
blocker is taken away in the order in which it bites, until the node moves; those that need not have
been taken away are dropped again. What is left is a set of which every part is needed: with any one
of them in place the node stays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from traceanalyzer.placement.blocker import Blocker, BlockerKind
from traceanalyzer.placement.devices import ANYWHERE, CPU, GPU, DeviceName, parse_device
from traceanalyzer.placement.neighbourhood import Neighbourhoods, trail
from traceanalyzer.placement.placer import NO_CHANGES, Changes, Decision, place
from traceanalyzer.placement.reasons import requested

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traceanalyzer.placement.placer import Placement

__all__ = [
    "BlockerFinder",
    "Blockers",
    "blockers",
    "moved",
    "moved_without",
    "without",
]


_MANY: Final = 32  # blockers that are alike
_OF_KERNELS: Final = frozenset(
    {BlockerKind.NO_KERNEL, BlockerKind.ATTRIBUTES, BlockerKind.HOST_LIST, BlockerKind.PRIORITY}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blockers:
    """All that keeps a node from a type of device.

    Attributes:
        node: The node.
        found: What does, in the order in which it bites; none where nothing does.
        follows: The nodes that it follows, the next one first: their blockers are its own.
        is_complete: Whether the node moves without them. If not, something holds it that is not
            known here.
    """

    node: int
    found: tuple[Blocker, ...]
    follows: tuple[int, ...]
    is_complete: bool


class BlockerFinder:
    """Finds what keeps the nodes of one placement from a type of device."""

    def __init__(self, placement: Placement, device_type: str = GPU) -> None:
        """Begin.

        Args:
            placement: Where the nodes are.
            device_type: Where they might be.
        """
        self._placement = placement
        self._type = device_type
        self._around = Neighbourhoods(placement)
        self._of_groups: dict[int, _Found] = {}

    def of(self, node: int) -> Blockers:
        """Find all that keeps a node from the device."""
        found = self._of_group(node) or self._searched(node)
        return Blockers(
            node=node,
            found=found.blockers,
            follows=tuple(trail(self._placement, node)),
            is_complete=found.is_complete,
        )

    def _of_group(self, node: int) -> _Found | None:
        """Return what holds the first such member of a node's group, where it holds the node too.

        Of a group of hundreds, one is searched for. That two are a group now does not say that they
        would be without a blocker: soft placement may have ignored what else one of them is
        colocated with.
        """
        placement = self._placement
        if placement.decisions[node] is not Decision.FIRST:
            return None
        root = placement.roots[node]
        if root not in self._of_groups:
            self._of_groups[root] = self._searched(self._first_of(node))
        found = self._of_groups[root]
        if node not in found.alike:
            return None
        of_node = [
            replace(b, node=node) if b.kind is BlockerKind.DEFAULT_DEVICE else b
            for b in found.blockers
        ]
        # What the node lacks itself bites first: see `_bites`.
        of_node.sort(key=lambda b: b.node != node or b.kind not in _OF_KERNELS)
        return replace(found, blockers=tuple(of_node))

    def _first_of(self, node: int) -> int:
        """Return the first member of a node's group that got the first of its candidates."""
        decisions = self._placement.decisions
        return next(m for m in self._around.members(node) if decisions[m] is Decision.FIRST)

    def _searched(self, node: int) -> _Found:
        """Place the neighbourhood anew for each blocker; the whole graph if that does not tell."""
        part = self._around.of(node)
        members = self._around.members(node)
        if part.is_faithful:
            number = {at: k for k, at in enumerate(part.whole)}
            inside = [number[at] for at in members]
            found = _search(part.placement, number[node], self._type, inside)
            if found.is_complete:
                return _Found(
                    blockers=tuple(replace(b, node=part.whole[b.node]) for b in found.blockers),
                    is_complete=True,
                    alike=frozenset(part.whole[at] for at in found.alike),
                )
        return _search(self._placement, node, self._type, members)


def blockers(placement: Placement, node: int, device_type: str = GPU) -> Blockers:
    """Find all that keeps one node from a type of device; see `BlockerFinder`."""
    return BlockerFinder(placement, device_type).of(node)


def moved_without(
    placement: Placement, taken_away: Iterable[Blocker], device_type: str = GPU
) -> list[int]:
    """Return the nodes that would be elsewhere without some blockers: all that is dragged along."""
    goal = _goal(placement, device_type)
    return moved(placement, _again(placement, taken_away, goal))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What a search found.

    Attributes:
        blockers: What holds the node.
        is_complete: Whether it moves without them.
        alike: Those of its group that went where it went in all that was tried: the same holds
            them.
    """

    blockers: tuple[Blocker, ...]
    is_complete: bool
    alike: frozenset[int]


def _search(placement: Placement, node: int, device_type: str, members: Iterable[int]) -> _Found:
    """Take blockers away until a node moves; find those that are needed, and whether it did."""
    goal = _goal(placement, device_type)
    found: list[Blocker] = []
    alike = {*members}

    def without_these(some: Iterable[Blocker]) -> Placement:
        after = _again(placement, some, goal)
        alike.intersection_update([at for at in alike if after.devices[at] == after.devices[node]])
        return after

    current = placement
    while goal and not _has_moved(placement, current, node, device_type):
        focus = (node, *trail(current, node))[-1]
        known = {*found}
        bites = [bite for bite in _bites(current, focus, device_type) if bite not in known]
        if not bites:
            break
        found += bites
        current = without_these(found)
    is_complete = _has_moved(placement, current, node, device_type)
    needed = len(found) + 1
    while is_complete and len(found) < needed:  # what was needed beside another may be no more
        needed = len(found)
        for some in _apart(found):
            rest = [other for other in found if other not in some]
            if _has_moved(placement, without_these(rest), node, device_type):
                found = rest
    return _Found(blockers=tuple(found), is_complete=is_complete, alike=frozenset(alike))


def _apart(found: Iterable[Blocker]) -> list[set[Blocker]]:
    """Return blockers one by one, but many that are alike together.

    Where hundreds of one group ask for the same, each holds it as the others do; to try each takes
    the square of their number.
    """
    kinds: dict[tuple[BlockerKind, tuple[str, ...], str], set[Blocker]] = {}
    for blocker in found:
        kinds.setdefault((blocker.kind, blocker.attributes, blocker.requested_device), set()).add(
            blocker
        )
    return [
        some
        for alike in kinds.values()
        for some in ([alike] if len(alike) > _MANY else [{each} for each in sorted(alike, key=_at)])
    ]


def _at(blocker: Blocker) -> int:
    return blocker.node


def _has_moved(before: Placement, after: Placement, node: int, device_type: str) -> bool:
    """Return whether a node is where it might be, in a graph that TensorFlow would not refuse."""
    is_refused = bool(after.failures) and not before.failures
    return not is_refused and _is_there(after, node, device_type)


def without(changes: Changes, taken_away: Iterable[Blocker], device: str) -> Changes:
    """Return what would be otherwise without some blockers.

    Args:
        changes: What is taken to be otherwise already.
        taken_away: The blockers.
        device: Where what is assigned elsewhere would be, and the default device.
    """
    kernels = set(changes.kernels)
    requests, assigned = dict(changes.requests), dict(changes.assigned)
    default = changes.default_device
    for blocker in taken_away:
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


def moved(before: Placement, after: Placement) -> list[int]:
    """Return the nodes that are on different devices in two placements of a graph."""
    pairs = zip(before.devices, after.devices, strict=True)
    return [at for at, (one, other) in enumerate(pairs) if one != other]


def _goal(placement: Placement, device_type: str) -> str:
    matching = placement.setting.machine.matching(DeviceName(type=device_type))
    return matching[0] if matching else ""


def _again(placement: Placement, taken_away: Iterable[Blocker], goal: str) -> Placement:
    changes = without(placement.changes or NO_CHANGES, taken_away, goal)
    return place(placement.nodes, placement.setting, changes)


def _is_there(placement: Placement, node: int, device_type: str) -> bool:
    device = placement.devices[node]
    return bool(device) and parse_device(device).type == device_type


def _bites(placement: Placement, node: int, device_type: str) -> list[Blocker]:
    """Return what keeps a node from a type of device next: all of the first kind there is."""
    root = placement.roots[node]
    ordered = (node, *(m for m, its in enumerate(placement.roots) if its == root and m != node))
    kernels = [b for m in ordered if (b := _no_kernel(placement, m, device_type))]
    if kernels:
        return kernels
    asked = [b for m in ordered if (b := _elsewhere(placement, m, device_type))]
    for kind in (BlockerKind.ASSIGNED, BlockerKind.RESOURCE, BlockerKind.REQUEST):
        of_kind = [b for b in asked if b.kind is kind]
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


def _no_kernel(placement: Placement, node: int, device_type: str) -> Blocker | None:
    if node in placement.changes.kernels:
        return None
    for kind, attributes in placement.nodes.support[node].missing:
        if kind == device_type:
            why = BlockerKind.ATTRIBUTES if attributes else BlockerKind.NO_KERNEL
            return Blocker(kind=why, node=node, attributes=attributes)
    if node in placement.nodes.host_lists and device_type != CPU:
        return Blocker(kind=BlockerKind.HOST_LIST, node=node)
    return None


def _elsewhere(placement: Placement, node: int, device_type: str) -> Blocker | None:
    kind, device = requested(placement, node)
    if device is ANYWHERE or device.type in {None, device_type}:
        return None
    return Blocker(kind=kind, node=node, requested_device=str(device))
