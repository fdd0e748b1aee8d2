"""The part of a graph that decides where a node is, so that it can be placed again by itself.

A colocation group is placed by what its members need, and a node can follow its input or its
consumers. Nothing else reaches it; so to try what would happen without a blocker, these groups
suffice. What lies around them keeps the device it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from traceanalyzer.placement.placer import Decision, Placement, Region, place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.placement.nodes import Edge


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlacedRegion:
    """A region of a placed graph, placed by itself."""

    placement: Placement
    #: Whether its nodes are placed as they are in the whole graph, and in the same way. If not,
    #: what lies around has a say in it.
    is_faithful: bool


class Regions:
    """Finds the regions of one placed graph."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self._last: tuple[frozenset[int], PlacedRegion] | None = None
        self._members: dict[int, list[int]] = {}
        for at, root in placement.roots.items():
            self._members.setdefault(root, []).append(at)
        self._edges: dict[int, list[Edge]] = {}
        for edge in placement.nodes.bound:
            self._edges.setdefault(placement.roots[edge.target], []).append(edge)

    def members(self, node: int) -> list[int]:
        """Return the colocation group of a node, in the graph's order."""
        return self._members[self._placement.roots[node]]

    def of(self, node: int) -> PlacedRegion:
        """Place the region that decides where a node is."""
        roots = frozenset(self._placement.roots[deciding] for deciding in self._deciding(node))
        if self._last is None or self._last[0] != roots:  # members of a group are asked for in turn
            self._last = (roots, self._of_groups(roots))
        return self._last[1]

    def _of_groups(self, roots: frozenset[int]) -> PlacedRegion:
        whole = self._placement
        inside = {member for root in roots for member in self._members[root]}
        edges = [edge for root in roots for edge in self._edges.get(root, ())]
        region = Region(
            inside=sorted(inside),
            around={
                beside: whole.devices[beside]
                for at in inside
                for beside in self._beside(at)
                if beside not in inside
            },
            bound=[
                edge
                for edge in sorted(edges, key=lambda edge: edge.target)
                if edge.source in inside and edge.target in inside
            ],
        )
        placed = place(whole.nodes, whole.setting, whole.changes, region)
        return PlacedRegion(
            placement=placed,
            is_faithful=not whole.ignored
            and all(
                placed.devices[at] == whole.devices[at]
                and placed.decisions[at] is whole.decisions[at]
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


def trail(placement: Placement, node: int) -> Iterator[int]:
    """Walk what a node follows, and what that follows."""
    seen = {node}
    while placement.decisions.get(node) in {Decision.INPUT, Decision.CONSUMERS}:
        node = placement.followed[node]
        if node in seen:
            return
        seen.add(node)
        yield node
