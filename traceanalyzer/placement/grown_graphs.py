"""Graphs of a TensorFlow 1 session that grew between its runs.

When a program adds ops, its session places the whole graph again. Stateful ops keep their previous
device (`RestoreStatefulNodes`, core/common_runtime/graph_execution_state.cc). A graph dump shows
that device instead of the requested one, so it must not be read as a request.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traceanalyzer.capture_file.function_records import Graph, Instance
    from traceanalyzer.placement.placer import Placement, Setting


class FirstPlaced(NamedTuple):
    """Where a node was first placed."""

    instance: int
    node: int


def kept_nodes(instances: Sequence[Instance]) -> list[Mapping[int, FirstPlaced]]:
    """Return, by graph, the nodes that keep the device of an earlier graph: where each got it."""
    found: list[Mapping[int, FirstPlaced]] = []
    latest: dict[str, FirstPlaced] = {}
    for at, instance in enumerate(instances):
        graph = instance.input
        kept: dict[int, FirstPlaced] = {}
        for node, (name, device) in enumerate(zip(graph.names, graph.devices, strict=True)):
            before = latest.get(name)
            if device and before is not None:
                earlier = instances[before.instance]
                was_kept = before.node in found[before.instance]
                if (
                    graph.ops[node] == earlier.input.ops[before.node]
                    and device == earlier.assigned[before.node]
                    and (was_kept or device != earlier.input.devices[before.node])
                ):
                    kept[node] = found[before.instance].get(before.node, before)
        found.append(kept)
        latest.update((name, FirstPlaced(at, node)) for node, name in enumerate(graph.names))
    return found


def with_requests(instances: Sequence[Instance]) -> tuple[Instance, ...]:
    """Return a session's graphs with the requested device of each node that kept its device."""
    return tuple(
        _with_devices(
            each, {n: instances[f.instance].input.devices[f.node] for n, f in kept.items()}
        )
        for each, kept in zip(instances, kept_nodes(instances), strict=True)
    )


def _with_devices(instance: Instance, changed: Mapping[int, str]) -> Instance:
    if not changed:
        return instance
    graph = instance.input
    devices = tuple(changed.get(at, device) for at, device in enumerate(graph.devices))
    return replace(instance, input=replace(graph, devices=devices))


def with_kept(
    setting: Setting, kept: Mapping[int, tuple[Placement, int]], recorded: Sequence[str]
) -> Setting:
    """Return what a graph is placed under, with the nodes that keep their device.

    Args:
        kept: Each such node, with the placement that gave it its device and its node there.
        recorded: The devices that the graph's nodes were recorded with; empty on another machine,
            where the earlier replay gives them.
    """
    assigned, guessed = {}, {}
    for node, (earlier, at) in kept.items():
        device = recorded[node] if recorded else earlier.devices[at]
        if device:
            assigned[node] = device
        if at in earlier.doubts:
            guessed[node] = earlier.doubts[at]
    return replace(
        setting,
        assigned={**setting.assigned, **assigned},
        guessed={**setting.guessed, **guessed},
        kept=frozenset(assigned),
    )


def newest(graphs: Sequence[Graph]) -> list[int]:
    """Return the indices of the graphs that did not grow into a later one."""
    found: list[int] = []
    kept: list[frozenset[tuple[str, str, str]]] = []
    for at in reversed(range(len(graphs))):
        graph = graphs[at]
        nodes = frozenset(zip(graph.names, graph.ops, graph.devices, strict=True))
        if not any(nodes <= later for later in kept):
            found.append(at)
            kept.append(nodes)
    return found[::-1]
