"""Why a node is on its device: what was possible, what took which device away, what decided."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from traceanalyzer.placement.blocker import Blocker, BlockerKind
from traceanalyzer.placement.devices import (
    ANYWHERE,
    CPU,
    DeviceName,
    DeviceNameError,
    parse_device,
)
from traceanalyzer.placement.doubts import doubts_of
from traceanalyzer.placement.placer import Decision

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.placement.placer import Placement

__all__ = ["Preference", "Reasons", "Why", "requested"]


class Preference(Enum):
    """Why it is this one of the devices that were left.

    Attributes:
        ONLY: It alone was left.
        DEFAULT_DEVICE: It is the function's default device: where its call was placed.
        PRIORITY: The kernel for its type has a higher priority.
        ORDER: TensorFlow prefers GPUs, and devices with lower numbers.
        INPUT: The node follows its input.
        CONSUMERS: The node has no inputs and follows its consumers.
        ASSIGNED: It had its device before the placer ran.
        NONE: None was left.
    """

    ONLY = "only"
    DEFAULT_DEVICE = "default_device"
    PRIORITY = "priority"
    ORDER = "order"
    INPUT = "input"
    CONSUMERS = "consumers"
    ASSIGNED = "assigned"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """Why a node is on its device.

    Attributes:
        node: The node.
        device: Where it is, "" where TensorFlow refuses the graph.
        possible: All devices there are.
        removals: What took which away, those of the node itself first.
        given_up: What was asked and not heeded: by soft placement, or because a resource's
            device outweighs a request.
        left: The devices that were left to choose from, the preferred one first.
        preference: Why it is this one.
        followed: The node that it follows, or None.
        members: How many nodes its colocation group has.
        doubt: Why the replay may be wrong here, or "".
    """

    node: int
    device: str
    possible: tuple[str, ...]
    removals: tuple[Blocker, ...]
    given_up: tuple[Blocker, ...]
    left: tuple[str, ...]
    preference: Preference
    followed: int | None
    members: int
    doubt: str


_FOLLOWING: Final = {
    Decision.INPUT: Preference.INPUT,
    Decision.CONSUMERS: Preference.CONSUMERS,
    Decision.ASSIGNED: Preference.ASSIGNED,
    Decision.NONE: Preference.NONE,
}


class Reasons:
    """Answers why, for the nodes of one placement; what groups have in common is found once."""

    def __init__(self, placement: Placement) -> None:
        """Begin with nothing found."""
        self.placement = placement
        self._members: dict[int, list[int]] = {}
        self._removals: dict[int, list[Blocker]] = {}
        for at, root in enumerate(placement.roots):
            self._members.setdefault(root, []).append(at)
        self._doubts = doubts_of(placement)

    def members(self, node: int) -> list[int]:
        """Return the colocation group of a node, in the graph's order."""
        return self._members[self.placement.roots[node]]

    def doubt(self, node: int) -> str:
        """Return why the replay may be wrong for a node, or ""."""
        return self._doubts.get(node, "")

    def of(self, node: int) -> Why:
        """Return why a node is where it is."""
        placement = self.placement
        members = self.members(node)
        left = placement.candidates.get(placement.roots[node], ())
        if placement.decisions[node] is Decision.ASSIGNED:
            left = (placement.devices[node],)
        removals, given_up = [], []
        of_others = (r for r in self._of_group(placement.roots[node]) if r.node != node)
        for removal in (*self._by(node), *of_others):
            if left and set(left) <= set(removal.devices):
                given_up.append(removal)
            elif not set(left) >= set(removal.devices):
                removals.append(removal)
        return Why(
            node=node,
            device=placement.devices[node],
            possible=placement.setting.machine.devices,
            removals=tuple(removals),
            given_up=tuple(given_up),
            left=left,
            preference=self._preference(node, left),
            followed=placement.followed.get(node),
            members=len(members),
            doubt=self.doubt(node),
        )

    def _of_group(self, root: int) -> list[Blocker]:
        """Return what the members of a group take away; most take nothing."""
        found = self._removals.get(root)
        if found is None:
            found = [removal for member in self._members[root] for removal in self._by(member)]
            self._removals[root] = found
        return found

    def _by(self, member: int) -> Iterator[Blocker]:
        """Walk what a member of a group takes away from it."""
        placement = self.placement
        machine, nodes = placement.setting.machine, placement.nodes
        if member not in placement.changes.kernels:
            for kind, attributes in nodes.support[member].missing:
                taken = tuple(machine.matching(DeviceName(type=kind)))
                if taken:
                    why = BlockerKind.ATTRIBUTES if attributes else BlockerKind.NO_KERNEL
                    yield Blocker(kind=why, node=member, devices=taken, attributes=attributes)
            if member in nodes.host_lists:
                taken = tuple(d for d in machine.devices if parse_device(d).type != CPU)
                if taken:
                    yield Blocker(kind=BlockerKind.HOST_LIST, node=member, devices=taken)
        why, device = requested(placement, member)
        if device is not ANYWHERE:
            kept = set(machine.matching(device))
            taken = tuple(d for d in machine.devices if d not in kept)
            if taken:
                yield Blocker(kind=why, node=member, devices=taken, requested_device=str(device))

    def _preference(self, node: int, left: tuple[str, ...]) -> Preference:
        placement = self.placement
        decision = placement.decisions[node]
        if decision is not Decision.FIRST:
            return _FOLLOWING[decision]
        if len(left) == 1:
            return Preference.ONLY
        default = placement.changes.default_device
        if left[0] == (placement.setting.default_device if default is None else default):
            return Preference.DEFAULT_DEVICE
        order = placement.setting.machine.devices
        if order.index(left[0]) > min(order.index(d) for d in left):
            return Preference.PRIORITY
        return Preference.ORDER


def requested(placement: Placement, node: int) -> tuple[BlockerKind, DeviceName]:
    """Return the device that is requested for a node, and how the request binds."""
    changes, setting = placement.changes, placement.setting
    assigned = changes.assigned.get(node, setting.assigned.get(node))
    device = changes.requests.get(node, placement.nodes.graph.devices[node])
    is_maker = node in placement.nodes.resource_makers
    kind = BlockerKind.RESOURCE if is_maker else BlockerKind.REQUEST
    if assigned is not None:
        kind, device = BlockerKind.ASSIGNED, assigned
    try:
        return kind, parse_device(device)
    except DeviceNameError:
        return kind, ANYWHERE  # reported as a failure of the placement
