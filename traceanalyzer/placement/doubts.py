"""Where the replay of a placement may be wrong, and what that draws into doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.placement.placer import Decision

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traceanalyzer.placement.nodes import Nodes
    from traceanalyzer.placement.placer import Placement


def doubts_of(placement: Placement) -> Mapping[int, str]:
    """Return why the replay may be wrong, by node; a node that is not there is in no doubt.

    A doubt spreads to the colocation group of its node, unless a member of that was assigned
    before the placer ran; and to what may follow a node in doubt, where it has a choice. If
    TensorFlow would refuse the graph, all of it is in doubt.
    """
    nodes = placement.nodes
    if placement.failures:
        first = placement.failures[0]
        name = nodes.graph.names[first.node]
        text = f"TensorFlow would refuse the graph: {name}: {first.message}"
        return dict.fromkeys(range(len(nodes)), text)
    found = {
        at: support.doubt
        for at, support in enumerate(nodes.support)
        if support.doubt and at not in placement.changes.kernels
    }
    found.update(nodes.doubts)
    found.update(placement.setting.guessed)
    return _spread(placement, found) if found else found


def _spread(placement: Placement, doubts: dict[int, str]) -> dict[int, str]:
    roots, candidates = placement.roots, placement.candidates
    followers = _followers(placement.nodes)
    members: dict[int, list[int]] = {}
    for at, root in roots.items():
        members.setdefault(root, []).append(at)
    for root in _assigned_groups(placement):
        members.pop(root, None)
    left = list(doubts)
    while left:
        node = left.pop()
        reached = members.pop(roots[node], [])
        for follower in followers.get(node, ()):
            if len(candidates.get(roots[follower], ())) > 1:
                reached.append(follower)
        for at in reached:
            if at not in doubts:
                doubts[at] = doubts[node]
                left.append(at)
    return doubts


def _followers(nodes: Nodes) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for at, followed in nodes.followers.items():
        found.setdefault(followed, []).append(at)
    for at in nodes.generators:
        for consumer in nodes.consumers[at]:
            found.setdefault(consumer, []).append(at)
    return found


def _assigned_groups(placement: Placement) -> set[int]:
    """Return the roots of groups of which a member was assigned before, and not by a guess."""
    guessed = placement.setting.guessed
    return {
        placement.roots[at]
        for at, decision in placement.decisions.items()
        if decision is Decision.ASSIGNED and at not in guessed
    }
