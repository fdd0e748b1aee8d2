"""Groups nodes that must share a device, and tracks the device requested for each group.

See `ColocationGraph` (core/common_runtime/colocation_graph.cc).
"""

from collections.abc import Mapping
from typing import TypeAlias

from traceanalyzer.placement.devices import (
    ANYWHERE,
    CPU,
    GPU,
    DeviceConflictError,
    DeviceName,
    Machine,
    parse_device,
)

# (type, priority of its kernel), the preferred type first.
Types: TypeAlias = "tuple[tuple[str, int], ...]"


class ColocationGroups:
    """A disjoint-set forest over the nodes of a graph. Each root has its group's requirements."""

    def __init__(
        self, types: Mapping[int, Types], machine: Machine, default_device: str, *, soft: bool
    ) -> None:
        # By root: the device that a member is assigned to; the request for the resources in the
        # group, which outweighs others; the whole request; the types with kernels for all members.
        self.assigned: dict[int, DeviceName] = dict.fromkeys(types, ANYWHERE)
        self.resource = dict(self.assigned)
        self.requested = dict(self.assigned)
        self.types = dict(types)
        self._machine = machine
        self._default = default_device
        self._soft = soft
        self._parents = {node: node for node in types}
        self._ranks = dict.fromkeys(types, 0)
        self._found: dict[tuple[DeviceName, Types], tuple[str, ...]] = {}

    def root(self, node: int) -> int:
        """Return the node that represents a node's group."""
        parents = self._parents
        top = node
        while parents[top] != top:
            top = parents[top]
        while parents[node] != top:
            parents[node], node = top, parents[node]
        return top

    def bind(self, source: int, target: int) -> None:
        """Join the groups at both ends of a resource edge. The source's request has priority."""
        a, b = self.root(source), self.root(target)
        if a == b:
            return
        for names in (self.assigned, self.resource):
            names[a].merged(names[b])  # raises an error if they conflict
        if self.requested[a].differing(self.requested[b]):
            overridden = self.requested[a].overridden(self.assigned[b])
            self.requested[b] = overridden.overridden(self.resource[b])
        self.join(a, b)

    def join(self, one: int, other: int) -> None:
        """Join the groups of two nodes."""
        a, b = self.root(one), self.root(other)
        if a == b:
            return
        if self._ranks[a] < self._ranks[b]:
            a, b = b, a
        assigned = self.assigned[a].merged(self.assigned[b])
        resource = self.resource[a].merged(self.resource[b])
        requested = self.requested[a].merged(self.requested[b], soft=self._soft)
        # TensorFlow checks the types after this: if none are left, the requests stay merged
        self.assigned[a] = assigned
        self.resource[a] = resource
        self.requested[a] = requested.overridden(assigned).overridden(resource)
        types = _merge_types(self.types[a], self.types[b])
        if not types:
            msg = "no device type has kernels for all ops of the colocation group"
            raise DeviceConflictError(msg)
        self._parents[b] = a
        self._ranks[a] += self._ranks[a] == self._ranks[b]
        self.types[a] = types

    def assign(self, root: int, device: str) -> None:
        """Restrict a group to a device that a member is assigned to."""
        name = parse_device(device)
        if self.assigned[root] != name:
            self.assigned[root] = self.assigned[root].merged(name)
            self.resource[root] = self.resource[root].overridden(name)
            self.requested[root] = self.requested[root].overridden(name)

    def limit(self, node: int, device_type: str) -> None:
        """Restrict a node's group to one device type, if the group can use that type."""
        root = self.root(node)
        left = tuple(each for each in self.types[root] if each[0] == device_type)
        self.types[root] = left or self.types[root]

    def candidates(self, root: int) -> tuple[str, ...]:
        """Return the devices that a group can be placed on, preferred device first.

        See `GetDevicesForNode` and `GetSoftDeviceCandidates` of `ColocationGraph`.
        """
        requested, assigned = self.requested[root], self.assigned[root]
        found = self._matching(requested, self.types[root])
        for kept in ((assigned, self.resource[root]), (assigned,)) if self._soft else ():
            found = found or self._matching(requested.softened(*kept), self.types[root])
        return found

    def _matching(self, requested: DeviceName, types: Types) -> tuple[str, ...]:
        """Return matching devices, default first, then by priority (`FilterSupportedDevices`)."""
        key = (requested, types)
        if key not in self._found:
            priorities = dict(types)
            matching = self._machine.matching(requested)
            of_type = {device: parse_device(device).type or "" for device in matching}
            usable = [device for device, kind in of_type.items() if kind in priorities]
            usable.sort(key=lambda d: (d != self._default, -priorities[of_type[d]]))
            self._found[key] = tuple(usable)
        return self._found[key]


def _merge_types(one: Types, other: Types) -> Types:
    """Return the common device types in the order of `Member::MergeSupportedDevices`.

    If only one group has priorities, use those. If the groups' orders differ, use no priorities.
    """
    if one == other:
        return one
    common = dict(one).keys() & dict(other).keys()
    mine = tuple(each for each in one if each[0] in common)
    yours = tuple(each for each in other if each[0] in common)
    if not any(priority for _, priority in yours):
        return mine
    if not any(priority for _, priority in mine):
        return yours
    if [kind for kind, _ in mine] == [kind for kind, _ in yours]:
        return mine
    return tuple((kind, 0) for kind in (GPU, CPU) if kind in common)
