"""What the report says of copies: the graph, storms of small ones, scalars that are read back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from traceanalyzer.model import (
    CopyEdge,
    CopyGraph,
    CopyGroup,
    CopyGroups,
    CopyNode,
    CopyStorm,
    DeviceCopies,
    GroupCopies,
    ReadBack,
    StormEdge,
)
from traceanalyzer.report.islands import MAX_ISLANDS
from traceanalyzer.transfers.graph import device_graph
from traceanalyzer.transfers.groups import transfer_groups
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import networkx as nx

    from traceanalyzer.run import Run
    from traceanalyzer.transfers.device_to_host_syncs import DeviceToHostSync
    from traceanalyzer.transfers.groups import Group
    from traceanalyzer.transfers.small_transfers import SmallTransfers

__all__ = ["copy_graph"]

_MAX_EDGES: Final = 500
_MAX_READ_BACKS: Final = 100
_AS_THEY_ARE: Final = (
    "bytes", "count", "bytes_per_s", "link_bytes_per_s", "link_source", "pageable_count",
    "pageable_bytes", "pinned_count", "pinned_bytes", "async_count", "sync_count",
)  # fmt: skip


def copy_graph(run: Run) -> CopyGraph | None:
    """Return who copied what to whom; None where nothing was copied."""
    if run.transfers.empty:
        return None
    graph = run.transfer_graph
    edges = sorted(
        graph.edges(keys=True, data=True),
        key=lambda e: (-(e[3]["bytes"] or 0), -e[3]["count"], e[0], e[1], e[2]),
    )
    shown = edges[:_MAX_EDGES]
    costs = run.transfer_costs
    backs = costs.device_to_host_syncs[:_MAX_READ_BACKS]
    nodes = dict.fromkeys(node for edge in shown for node in edge[:2])
    nodes |= dict.fromkeys(
        node for s in costs.small_transfers for edge in s.edges for node in edge[:2]
    )
    nodes |= dict.fromkeys(back.source for back in backs)
    return CopyGraph(
        nodes=tuple(
            CopyNode(
                op_id=node,
                label=graph.nodes[node]["label"],
                placement=graph.nodes[node]["placement"],
            )
            for node in nodes
        ),
        edges=tuple(CopyEdge(**_edge(*edge)) for edge in shown),
        devices=tuple(_device_edges(device_graph(run.transfers, run.transfer_traffic))),
        edges_total=len(edges),
        storms=tuple(map(_storm, costs.small_transfers)),
        read_backs=tuple(map(_read_back, backs)),
        read_backs_total=len(costs.device_to_host_syncs),
        groups=_groups(run),
    )


def _groups(run: Run) -> CopyGroups:
    found = transfer_groups(run.transfers, run.ops)
    labels = {node: str(told["label"]) for node, told in run.transfer_graph.nodes(data=True)}
    numbers = _island_numbers(run)
    return CopyGroups(
        sources=tuple(_group(group, labels, numbers) for group in found.sources),
        targets=tuple(_group(group, labels, numbers) for group in found.targets),
        flows=tuple(
            GroupCopies(
                source=flow.source,
                target=flow.target,
                source_memory=flow.source_memory,
                target_memory=flow.target_memory,
                direction=flow.direction,  # type: ignore[arg-type]  # as in the copy table
                bytes=flow.sums["bytes"],
                unknown_bytes=flow.sums["unknown_bytes"],
                count=flow.sums["count"],
                total_us=_us(flow.sums["total_ps"]),
                exposed_us=_us(flow.sums["exposed_ps"]),
            )
            for flow in found.flows
        ),
    )


def _group(found: Group, labels: Mapping[str, str], numbers: Mapping[str, set[int]]) -> CopyGroup:
    first = found.nodes[0]
    islands = {number for node in found.nodes for number in numbers.get(node, ())}
    return CopyGroup(
        kind=found.kind,
        label=found.label,
        ops=len(found.nodes),
        node=first,
        name=labels[first],
        islands=tuple(sorted(islands)),
    )


def _island_numbers(run: Run) -> dict[str, set[int]]:
    """Return the numbers of the islands that each node of the copy graph has a part in."""
    numbers: dict[str, set[int]] = {}
    for number, island in enumerate(run.transfer_costs.round_trips[:MAX_ISLANDS], 1):
        for op in island.ops:
            node = f"name:{op.name}" if op.op_id is None else op.op_id
            numbers.setdefault(node, set()).add(number)
    return numbers


def _device_edges(graph: nx.MultiDiGraph[str]) -> Iterable[DeviceCopies]:
    for edge in sorted(graph.edges(keys=True, data=True), key=lambda e: e[:3]):
        yield DeviceCopies(**_edge(*edge))


def _edge(source: str, target: str, direction: str, data: dict[str, Any]) -> dict[str, Any]:
    return {
        "source": source,
        "target": target,
        "direction": direction,
        "total_us": _us(data["total_ps"]),
        "exposed_us": _us(data["exposed_ps"]),
        "hidden_us": _us(data["hidden_ps"]),
        **{name: data[name] for name in _AS_THEY_ARE},
    }


def _us(time_ps: float | None) -> float | None:
    return None if time_ps is None else time_ps / PS_PER_US


def _plain(value: float | None) -> float | None:
    """Return a median as the whole number that it mostly is."""
    return int(value) if value is not None and float(value).is_integer() else value


def _storm(found: SmallTransfers) -> CopyStorm:
    return CopyStorm(
        source=found.source,
        target=found.target,
        direction=found.direction,  # type: ignore[arg-type]  # as in the copy table
        count=found.count,
        count_per_step=_plain(found.count_per_step),
        bytes_each=found.bytes_each,
        each_us=found.time_each_ps / PS_PER_US,
        total_us=found.time_ps / PS_PER_US,
        carrying_us=_us(found.carrying_ps),
        edges=tuple(StormEdge(source=a, target=b, count=n) for a, b, n in found.edges),
        edges_total=found.edges_total,
    )


def _read_back(found: DeviceToHostSync) -> ReadBack:
    return ReadBack(
        host=found.host,
        device=found.device,
        reader=found.reader,
        certainty=found.certainty,
        source=found.source,
        source_name=found.source_name,
        consumer_name=found.consumer_name,
        count=found.count,
        count_per_step=_plain(found.count_per_step),
        bytes_each=_plain(found.bytes_each),
        total_us=_us(found.time_ps),
        wait_us=_us(found.wait_ps),
        idle_us=_us(found.idle_ps),
    )
