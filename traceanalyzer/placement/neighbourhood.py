"""The part of a graph that decides where a node is, cut out so that it can be placed by itself.

A colocation group is placed by what its members need, and a node can follow its input or its
consumers. Nothing else reaches it; so to try what would happen without a blocker, these groups
suffice. What lies around them keeps the device it has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from traceanalyzer.capture_file.function_records import Graph
from traceanalyzer.placement.nodes import Edge, Nodes
from traceanalyzer.placement.placer import Decision, Placement, place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Neighbourhood:
    """A part of a placed graph, placed by itself."""

    placement: Placement  #: its placement: what it was in the whole graph
    whole: Sequence[int]  #: the number of each of its nodes in the whole graph
    #: Whether its nodes are placed as they are in the whole graph, and in the same way. If not,
    #: what lies around has a say in it.
    is_faithful: bool


class Neighbourhoods:
    """Cuts neighbourhoods out of one placed graph."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self._last: tuple[frozenset[int], Neighbourhood] | None = None
        self._members: dict[int, list[int]] = {}
        for at, root in enumerate(placement.roots):
            self._members.setdefault(root, []).append(at)
        self._edges: dict[int, list[Edge]] = {}
        for edge in placement.nodes.bound:
            self._edges.setdefault(placement.roots[edge.target], []).append(edge)

    def members(self, node: int) -> list[int]:
        """Return the colocation group of a node, in the graph's order."""
        return self._members[self._placement.roots[node]]

    def of(self, node: int) -> Neighbourhood:
        """Cut out what decides where a node is."""
        roots = frozenset(self._placement.roots[deciding] for deciding in self._deciding(node))
        if self._last is None or self._last[0] != roots:  # members of a group are requests in turn
            self._last = (roots, self._of_groups(roots))
        return self._last[1]

    def _of_groups(self, roots: frozenset[int]) -> Neighbourhood:
        placement = self._placement
        inside = {member for root in roots for member in self._members[root]}
        around = {beside for at in inside for beside in self._beside(at)} - inside
        whole = sorted(inside | around)
        number = {at: k for k, at in enumerate(whole)}
        setting, changes = placement.setting, placement.changes
        fixed = {number[at]: placement.devices[at] for at in around if placement.devices[at]}
        graph = placement.nodes.graph
        requests = {at: changes.requests.get(at, setting.requested(graph, at)) for at in around}
        placed = place(
            self._cut(whole, number, inside),
            replace(
                setting,
                assigned={**_renumbered(setting.assigned, number), **fixed},
                guessed=_renumbered(setting.guessed, number),
                kept=frozenset(number[at] for at in setting.kept if at in number),
            ),
            replace(
                changes,
                kernels=frozenset(number[at] for at in changes.kernels if at in number),
                requests=_renumbered({**requests, **changes.requests}, number),
                assigned=_renumbered(changes.assigned, number),
                unbound=frozenset(number[at] for at in changes.unbound if at in number),
            ),
        )
        return Neighbourhood(
            placement=placed,
            whole=whole,
            is_faithful=not placement.ignored
            and all(
                placed.devices[number[at]] == placement.devices[at]
                and placed.decisions[number[at]] is placement.decisions[at]
                for at in inside
            ),
        )

    def _deciding(self, node: int) -> Iterator[int]:
        """Walk a node, what it follows, and what else has a say in that."""
        yield node
        previous = node
        for followed in trail(self._placement, node):
            if self._placement.decisions[previous] is Decision.CONSUMERS:
                yield from self._placement.nodes.consumers[previous]
            yield followed
            previous = followed

    def _beside(self, node: int) -> Iterator[int]:
        nodes = self._placement.nodes
        if node in nodes.followers:
            yield nodes.followers[node]
        yield from nodes.consumers.get(node, ())

    def _cut(self, whole: Sequence[int], number: Mapping[int, int], inside: set[int]) -> Nodes:
        nodes = self._placement.nodes
        graph = nodes.graph
        roots = {self._placement.roots[at] for at in inside}
        edges = [edge for root in roots for edge in self._edges.get(root, ())]
        followers = {
            at: f
            for at, f in _within(nodes.followers, inside)
            if f in number and self._settles_before(f, at)
        }
        return Nodes(
            graph=Graph(
                names=tuple(graph.names[at] for at in whole),
                ops=tuple(graph.ops[at] for at in whole),
                inputs=((),) * len(whole),
                devices=tuple(graph.devices[at] for at in whole),
                attributes=tuple(graph.attributes[at] for at in whole),
                origin_functions=tuple(graph.origin_functions[at] for at in whole),
                origin_nodes=tuple(graph.origin_nodes[at] for at in whole),
                producer=graph.producer,
            ),
            support=[nodes.support[at] for at in whole],
            classes={number[at]: c for at, c in _within(nodes.classes, inside)},
            bound=[
                Edge(number[edge.source], number[edge.target])
                for edge in sorted(edges, key=lambda edge: edge.target)
                if edge.source in inside and edge.target in inside
            ],
            generators=frozenset(number[at] for at in nodes.generators & inside),
            followers={number[at]: number[f] for at, f in followers.items()},
            metadata=frozenset(number[at] for at in nodes.metadata & followers.keys()),
            resource_makers=frozenset(number[at] for at in nodes.resource_makers & inside),
            host_lists=frozenset(number[at] for at in nodes.host_lists & inside),
            consumers={
                number[at]: [number[c] for c in of_node]
                if at not in nodes.generators or all(self._settles_before(c, at) for c in of_node)
                else []
                for at, of_node in _within(nodes.consumers, inside)
            },
            doubts=_renumbered(nodes.doubts, number),
        )

    def _settles_before(self, other: int, node: int) -> bool:
        """Return whether the placer knows where one node is when it comes to another.

        What it does not know then is never followed; what lies around the cut has its device from
        the start.
        """
        placement = self._placement
        if other in placement.setting.assigned or other in placement.changes.assigned:
            return True
        generators = placement.nodes.generators  # they wait until all else is placed
        return (other in generators, other) < (node in generators, node)


def trail(placement: Placement, node: int) -> Iterator[int]:
    """Walk what a node follows, and what that follows."""
    seen = {node}
    while placement.decisions[node] in {Decision.INPUT, Decision.CONSUMERS}:
        node = placement.followed[node]
        if node in seen:
            return
        seen.add(node)
        yield node


def _renumbered(of_nodes: Mapping[int, str], number: Mapping[int, int]) -> dict[int, str]:
    return {number[at]: value for at, value in of_nodes.items() if at in number}


def _within(of_nodes: Mapping[int, _T], inside: Iterable[int]) -> Iterator[tuple[int, _T]]:
    return ((at, of_nodes[at]) for at in inside if at in of_nodes)
