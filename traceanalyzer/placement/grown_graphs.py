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
    requesting = []
    for instance, kept in zip(instances, kept_nodes(instances), strict=True):
        devices = list(instance.input.devices)
        for node, first in kept.items():
            devices[node] = instances[first.instance].input.devices[first.node]
        graph = replace(instance.input, devices=tuple(devices)) if kept else instance.input
        requesting.append(replace(instance, input=graph))
    return tuple(requesting)


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
