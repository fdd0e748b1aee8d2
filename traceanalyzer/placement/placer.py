"""Replays TensorFlow's placer to find the device of each node of a graph, and the reason for it.

See `Placer::Run` (core/common_runtime/placer.cc) and `ColocationGraph` (colocation_graph.cc) of
TensorFlow 2.12 to 2.21. Tests compare the rules with it, on an emulated GPU.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import NamedTuple, TypeAlias

from traceanalyzer.capture_file.function_records import Graph
from traceanalyzer.placement.devices import (
    ANYWHERE,
    CPU,
    GPU,
    DeviceConflictError,
    DeviceName,
    DeviceNameError,
    Machine,
    parse_device,
)
from traceanalyzer.placement.nodes import METADATA, Edge, Nodes
from traceanalyzer.placement.registry import EVERYWHERE


class Decision(Enum):
    """The ways in which a node gets its device."""

    #: It had a device before the placer ran: an argument or a result of a function.
    ASSIGNED = "assigned"
    FIRST = "first"  #: it got the first of its candidates
    INPUT = "input"  #: it follows its input: metadata (`Shape`) or a plain `Identity`
    CONSUMERS = "consumers"  #: it has no inputs, and follows its consumers, which agree
    NONE = "none"  #: there was no candidate: TensorFlow refuses the graph


# (type, priority of its kernel), the preferred type first.
Types: TypeAlias = "tuple[tuple[str, int], ...]"
Failure: TypeAlias = "tuple[int, str]"  # a node, and why TensorFlow refuses the graph for it


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The conditions under which a graph is placed."""

    machine: Machine
    default_device: str = ""  #: the device of the function's call; "" in a session
    soft: bool = True
    #: Devices of nodes that have one before the placer runs.
    assigned: Mapping[int, str] = field(default_factory=dict)
    #: Nodes whose device is a guess, and why: nodes that follow them are in doubt.
    guessed: Mapping[int, str] = field(default_factory=dict)
    #: Requested devices that replace those in the graph; "" for none.
    requests: Mapping[int, str] = field(default_factory=dict)
    #: Nodes assumed to have a kernel for every type of device, whatever their lists contain.
    kernels: frozenset[int] = frozenset()

    def requested(self, graph: Graph, node: int) -> str:
        """Return the device that the program requests for a node (`Node::requested_device`)."""
        # A graph dump shows the device of an assigned node instead of its requested device.
        recorded = "" if node in self.assigned else graph.devices[node]
        return self.requests.get(node, recorded)


class Region(NamedTuple):
    """The part of a graph to place. The nodes around it keep their devices."""

    inside: Sequence[int]  #: the nodes to place, in the graph's order
    around: Mapping[int, str]  #: the devices of the nodes that these may follow
    bound: Sequence[Edge]  #: the edges inside that bind two nodes to one device


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
        # TensorFlow checks the types after this: if none are left, the requests stay merged.
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
        if self.assigned[root] != (name := parse_device(device)):
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


class Placement:
    """The devices that `Placer::Run` assigns to the nodes of a graph or of a region of it."""

    def __init__(self, nodes: Nodes, setting: Setting, region: Region | None = None) -> None:
        self.nodes = nodes
        self.setting = setting
        self.region = region or Region(range(len(nodes)), {}, nodes.bound)
        #: Why TensorFlow would have refused the graph, which is placed anyway, but is in doubt.
        self.failures: list[Failure] = []
        #: Nodes that soft placement took out of their colocation group.
        self.ignored: list[tuple[int, str]] = []
        inside, around = self.region.inside, self.region.around
        order = sorted({*inside, *around}) if around else inside
        #: Full names; "" where TensorFlow would have found none. Unassigned nodes have no device
        #: until they are placed, and cannot be followed before.
        self.devices = {at: setting.assigned.get(at, "") for at in order}
        self.decisions = dict.fromkeys(inside, Decision.NONE)
        self.followed: dict[int, int] = {}  #: by node, the node that it followed
        #: By root, the possible devices of the group when its first node was placed, the preferred
        #: one first.
        self.candidates: dict[int, tuple[str, ...]] = {}
        self._groups = self._singletons()
        #: The node that represents all nodes bound to a node by a resource or a reference.
        self.bound: dict[int, int] = {}
        self._join()
        # See `ColocationGraph::AddHostOnlyDataTypesConstraints`.
        for node in nodes.host_lists - setting.kernels:
            if node in self.decisions:
                self._groups.limit(node, CPU)
        #: The node that represents each node's colocation group.
        self.roots = {at: self._groups.root(at) for at in inside}
        self._choose(order)
        del self._groups

    @cached_property
    def members(self) -> Mapping[int, list[int]]:
        """The nodes of each colocation group in the graph's order, keyed by the group's root."""
        found = defaultdict(list)
        for at, root in self.roots.items():
            found[root].append(at)
        return found

    def trail(self, node: int) -> Iterator[int]:
        """Yield the chain of nodes that a node follows, nearest first."""
        seen = {node}
        while self.decisions.get(node) in {Decision.INPUT, Decision.CONSUMERS}:
            node = self.followed[node]
            if node in seen:
                return
            seen.add(node)
            yield node

    @cached_property
    def doubts(self) -> Mapping[int, str]:
        """The reasons why the replayed devices of some nodes may be wrong, by node.

        A doubt spreads to the node's colocation group, unless a member was assigned before the
        placer ran. It also spreads to nodes that may follow it, if they have several candidates.
        """
        nodes, guessed = self.nodes, self.setting.guessed
        if self.failures:
            node, message = self.failures[0]
            text = f"TensorFlow would reject the graph: {nodes.graph.names[node]}: {message}"
            return dict.fromkeys(range(len(nodes)), text)
        kernels = ((at, each.doubt) for at, each in enumerate(nodes.support))
        found = {at: why for at, why in kernels if why and at not in self.setting.kernels}
        found |= {**nodes.doubts, **guessed}
        if not found:
            return found
        followers = defaultdict(list)
        for at, followed in nodes.followers.items():
            followers[followed].append(at)
        for at in nodes.generators:
            for consumer in nodes.consumers[at]:
                followers[consumer].append(at)
        is_assigned = {at for at, how in self.decisions.items() if how is Decision.ASSIGNED}
        spread_to = {self.roots[at] for at in is_assigned - guessed.keys()}
        several = {root for root, devices in self.candidates.items() if len(devices) > 1}
        left = list(found)
        while left:
            node = left.pop()
            root = self.roots[node]
            reached = [] if root in spread_to else [*self.members[root]]
            spread_to.add(root)
            reached += [at for at in followers[node] if self.roots[at] in several]
            for at in reached:
                if at not in found:
                    found[at] = found[node]
                    left.append(at)
        return found

    def _requested(self, node: int) -> str:
        return self.setting.requested(self.nodes.graph, node)

    def _singletons(self) -> ColocationGroups:
        """Return groups with one node each (`ColocationGraph::InitializeMembers`)."""
        nodes, setting = self.nodes, self.setting
        present = set(setting.machine.types)
        kept: dict[Types, Types] = {}
        types = {}
        for at in self.region.inside:
            known = EVERYWHERE.types if at in setting.kernels else nodes.support[at].types
            if known not in kept:
                kept[known] = tuple(each for each in known if each[0] in present)
            types[at] = kept[known]
        groups = ColocationGroups(types, setting.machine, setting.default_device, soft=setting.soft)
        for at in self.region.inside:
            if at in setting.assigned:
                groups.assigned[at] = groups.requested[at] = self._read(at, setting.assigned[at])
                continue
            if not types[at]:
                self.failures.append((at, "no device of the machine has a kernel for it"))
            name = self._read(at, self._requested(at))
            if name is not ANYWHERE:
                groups.requested[at] = name
                if at in nodes.resource_makers:
                    groups.resource[at] = name
        return groups

    def _read(self, node: int, text: str) -> DeviceName:
        """Parse a device name, and record a failure if it is malformed."""
        try:
            return parse_device(text)
        except DeviceNameError as error:
            self.failures.append((node, str(error)))
            return ANYWHERE

    def _join(self) -> None:
        """Join groups, as `ColocateResourceAndRefEdges` and `ColocateAllNodes` do in TensorFlow."""
        for source, target in self.region.bound:
            try:
                self._groups.bind(source, target)
            except DeviceConflictError as error:
                self.failures.append((target, str(error)))
        self.bound = {at: self._groups.root(at) for at in self.region.inside}
        # Each node is in the groups of its `_class`, and in the group of its name.
        classes, names = self.nodes.classes, self.nodes.graph.names
        inside = self.region.inside
        wanted = {group for at in inside for group in classes.get(at, ())}
        first: dict[str, int] = {}
        for at in inside if wanted else ():
            for group in filter(wanted.__contains__, (*classes.get(at, ()), names[at])):
                try:
                    self._groups.join(at, first.setdefault(group, at))
                except DeviceConflictError as error:
                    if self.setting.soft:
                        self.ignored.append((at, group))
                    else:
                        self.failures.append((at, str(error)))

    def _choose(self, order: Sequence[int]) -> None:
        """Place nodes with inputs in order, then those without, which follow their consumers."""
        nodes, around, assigned = self.nodes, self.region.around, self.setting.assigned
        waiting = []
        for at in order:
            if at in nodes.generators and (at in around or at not in assigned):
                waiting.append(at)
            elif at in around:
                self.devices[at] = around[at]
            elif at in assigned:
                self._settle(at, assigned[at], Decision.ASSIGNED)
            else:
                followed = nodes.followers.get(at)
                follows = () if followed is None or not self._follows(at, followed) else (followed,)
                self._place(at, follows, Decision.INPUT)
        for at in waiting:
            if at in around:
                self.devices[at] = around[at]
            else:
                self._place(at, nodes.consumers[at], Decision.CONSUMERS)

    def _follows(self, node: int, followed: int) -> bool:
        """Return whether a node follows its input (`IsMetadata`, `MatchIdentityOperation`)."""
        if self.nodes.graph.ops[node] in METADATA:
            return True
        if self._requested(node):
            return False
        consumers = self.nodes.consumers[node]
        beyond = self._requested(consumers[0]) if consumers else ""
        return self._requested(followed) == beyond

    def _place(self, node: int, follows: Sequence[int], decision: Decision) -> None:
        """Place a node on the common device of `follows`, or else on its first candidate."""
        root = self.roots[node]
        candidates = self._groups.candidates(root)
        self.candidates.setdefault(root, candidates)
        agreed = {self.devices[other] for other in follows}
        if len(agreed) == 1 and (device := agreed.pop()) in candidates:
            self.followed[node] = follows[0]
            self._settle(node, device, decision)
        elif candidates:
            self._settle(node, candidates[0], Decision.FIRST)
        else:
            requested = self._groups.requested[root] or "what it needs"
            self.failures.append((node, f"no device meets {requested}"))

    def _settle(self, node: int, device: str, decision: Decision) -> None:
        self.devices[node] = device
        self.decisions[node] = decision
        root = self.roots[node]
        if decision is Decision.ASSIGNED and self._groups.assigned[root] is ANYWHERE:
            return  # not a device name, which is already recorded as a failure
        try:
            self._groups.assign(root, device)
        except DeviceConflictError as error:
            self.failures.append((node, str(error)))
