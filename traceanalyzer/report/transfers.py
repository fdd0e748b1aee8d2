"""Transfers in the report: between which ops, small transfers, and device-to-host syncs."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from traceanalyzer.format import percent_text
from traceanalyzer.model import blocks as b
from traceanalyzer.model.figures import (
    DeviceToHostSyncRecord,
    SmallTransfersRecord,
    TransferEdge,
    TransferGraph,
    TransferNode,
)
from traceanalyzer.report.records import to_record, us
from traceanalyzer.report.round_trips import round_trip_fold
from traceanalyzer.report.text import DIRECTIONS, in_bytes, op_link, table_of, time
from traceanalyzer.transfers.graph import device_graph
from traceanalyzer.transfers.groups import transfer_groups

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from traceanalyzer.model.figures import RoundTripRecord
    from traceanalyzer.run import Run
    from traceanalyzer.transfers.groups import Group

_MAX_EDGES: Final = 500
_MAX_SYNCS: Final = 100
_MOST_OF_A_KIND: Final = 10  # rows for parts of one direction
_LINKS: Final = {
    "pcie": "of the PCI Express bandwidth",
    "memory": "of the memory bandwidth",
    "seen": "of the best rate in the trace",
}
_READERS: Final = {
    "python": "read by your program: print, float() or .numpy()",
    "predicate": "decides a tf.cond or a loop",
    "host_argument": "a GPU op takes it in host memory",
    "cpu_op": "a CPU op takes it",
    "unknown": "reader unknown",
}
_COLUMNS: Final = (
    b.Column(name="transfers", title="Transfers"),
    b.Column(name="source", title="From"),
    b.Column(name="target", title="To"),
    b.Column(name="count_per_step", title="Per step", kind="count"),
    b.Column(name="count", title="Count", kind="count"),
    b.Column(name="bytes", title="Bytes", kind="bytes"),
    b.Column(name="time_us", title="Time", kind="us"),
    b.Column(name="gpu_wait_us", title="GPU wait", kind="us"),
    b.Column(name="hidden_share", title="Under compute", kind="share"),
    b.Column(name="bytes_per_s", title="Rate", kind="bytes_per_s"),
    b.Column(name="remark", title="Remark"),
)


def transfer_graph(run: Run) -> TransferGraph | None:
    """Return the transfers between ops and devices; None if there are none."""
    if run.transfers.empty:
        return None
    graph, costs = run.transfer_graph, run.transfer_costs
    edges = sorted(
        graph.edges(keys=True, data=True),
        key=lambda e: (-(e[3]["bytes"] or 0), -e[3]["count"], *e[:3]),
    )
    between_devices = device_graph(run.traffic).edges(keys=True, data=True)
    shown, syncs = edges[:_MAX_EDGES], costs.device_to_host_syncs[:_MAX_SYNCS]
    ends = [edge[:2] for edge in shown]
    ends += [(e.source, e.target) for small in costs.small_transfers for e in small.edges]
    nodes = dict.fromkeys([*chain.from_iterable(ends), *(sync.source for sync in syncs)])
    return TransferGraph(
        nodes=tuple(to_record(TransferNode, graph.nodes[node], op_id=node) for node in nodes),
        edges=tuple(
            to_record(TransferEdge, figures, source=source, target=target, direction=direction)
            for source, target, direction, figures in shown
        ),
        devices=tuple(
            to_record(TransferEdge, figures, source=source, target=target, direction=direction)
            for source, target, direction, figures in sorted(between_devices, key=lambda e: e[:3])
        ),
        edges_total=len(edges),
        small_transfers=costs.small_transfers,
        device_to_host_syncs=syncs,
        device_to_host_syncs_total=len(costs.device_to_host_syncs),
    )


# --- the tab ---------------------------------------------------------------------------------


def transfers_tab(
    run: Run, graph: TransferGraph | None, round_trips: Sequence[RoundTripRecord]
) -> b.Tab | None:
    """Return the tab; None without transfers."""
    if graph is None:
        return None
    count = sum(copies.count for copies in graph.devices)
    blocks: tuple[b.Block, ...] = (_flows(run), _table(graph), *round_trip_fold(round_trips))
    return b.Tab(id="transfers", title="Transfers", count=count, blocks=blocks)


def _flows(run: Run) -> b.Flows:
    """Return all transfers between groups of ops; each transfer is in one flow."""
    groups = transfer_groups(run.traffic, run.ops)
    names = {node: str(known["label"]) for node, known in run.transfer_graph.nodes(data=True)}
    places: dict[tuple[str, int, str], int] = {}
    nodes: list[b.FlowNode] = []

    def place(side: str, of_side: Sequence[Group], number: int, memory: str) -> int:
        if places.setdefault((side, number, memory), len(nodes)) == len(nodes):
            nodes.append(_node(of_side[number], memory, names))
        return places[side, number, memory]

    flows = [
        b.Flow(
            source=place("source", groups.sources, f.source, f.source_memory),
            target=place("target", groups.targets, f.target, f.target_memory),
            bytes=f.sums["bytes"],
            count=f.sums["count"],
            us=us(f.sums["total_ps"]),
            gpu_wait_us=us(f.sums["exposed_ps"]),
        )
        for f in groups.flows
    ]
    return b.Flows(nodes=tuple(nodes), flows=tuple(flows))


def _node(group: Group, memory: str, names: Mapping[str, str]) -> b.FlowNode:
    if group.kind == "memory":
        return b.FlowNode(label="unknown op", memory=memory)
    first, number = group.nodes[0], len(group.nodes)
    if group.kind == "op":
        op_id = None if first.startswith("name:") else first
        return b.FlowNode(label=group.label, memory=memory, ops=1, op_id=op_id)
    label = f"{number:,} others" if group.kind == "others" else group.label or names[first]
    return b.FlowNode(label=label, memory=memory, ops=number)


def _table(graph: TransferGraph) -> b.Table:
    """Return a row for each direction, with rows for its small transfers and syncs below it."""
    names = {node.op_id: node.label for node in graph.nodes}
    rows: list[dict[str, b.Cell]] = []
    for copies in graph.devices:
        rows.append(_direction(copies))
        ends = (copies.source, copies.target)
        many = [s for s in graph.small_transfers if (s.source, s.target) == ends]
        rows += [_small(small, names) for small in many[:_MOST_OF_A_KIND]]
        if copies.direction == "d2h":
            syncs = [
                sync
                for sync in graph.device_to_host_syncs
                if sync.device is None
                or sync.device.rpartition("/device:")[2].lower() == copies.source
            ]
            rows += [_sync(sync) for sync in syncs[:_MOST_OF_A_KIND]]
    return table_of(_COLUMNS, rows, table_id="transfers-table")


def _direction(copies: TransferEdge) -> dict[str, b.Cell]:
    hidden = None
    if copies.hidden_us is not None and copies.total_us:
        hidden = min(1.0, copies.hidden_us / copies.total_us)
    return {
        "transfers": DIRECTIONS[copies.direction],
        "source": copies.source,
        "target": copies.target,
        "count": copies.count,
        "bytes": copies.bytes,
        "time_us": copies.total_us,
        "gpu_wait_us": copies.exposed_us,
        "hidden_share": hidden,
        "bytes_per_s": copies.bytes_per_s,
        "remark": "; ".join(_remarks(copies)) or None,
    }


def _remarks(copies: TransferEdge) -> Iterator[str]:
    if copies.bytes_per_s and copies.link_bytes_per_s and copies.link_source:
        share = min(1.0, copies.bytes_per_s / copies.link_bytes_per_s)
        yield f"{percent_text(share)} {_LINKS[copies.link_source]}"
    if copies.pageable_count:
        yield f"{copies.pageable_count:,} of {copies.count:,} from or to pageable memory"


def _small(small: SmallTransfersRecord, names: Mapping[str, str]) -> dict[str, b.Cell]:
    remark: list[b.Inline] = [in_bytes(small.bytes_each), " each"]
    if small.carrying_us is not None and small.total_us:
        carrying = percent_text(small.carrying_us / small.total_us)
        remark.append(f"; the bytes alone need {carrying} of the time")
    for edge in small.edges[:1]:
        remark += ["; most from ", node_link(edge.source, names), " to "]
        remark.append(node_link(edge.target, names))
    return {
        "transfers": "of these: small transfers",
        "source": small.source,
        "target": small.target,
        "count_per_step": small.count_per_step,
        "count": small.count,
        "time_us": small.total_us,
        "remark": tuple(remark),
    }


def node_link(node: str, names: Mapping[str, str]) -> b.Inline:
    """Return the name of an end of transfers: an op, a memory, or an op without events."""
    label = names.get(node, node)
    return op_link(label, None if label == node or node.startswith("name:") else node)


def _sync(sync: DeviceToHostSyncRecord) -> dict[str, b.Cell]:
    source: b.Cell = "unknown op"
    if sync.source_name is not None:
        source = (node_link(sync.source, {sync.source: sync.source_name}),)
    remark: list[b.Inline] = [_READERS[sync.reader]]
    if sync.consumer_name is not None:
        remark += [": ", b.Code(text=sync.consumer_name)]
    if sync.certainty != "certain" and sync.reader != "unknown":
        remark.append(f" ({sync.certainty})")
    if sync.wait_us:
        remark += ["; waited for ", time(sync.wait_us)]
    if sync.idle_us:
        remark += ["; GPU idle after it for ", time(sync.idle_us)]
    return {
        "transfers": "of these: device-to-host sync",
        "source": source,
        "target": "host",
        "count_per_step": sync.count_per_step,
        "count": sync.count,
        "time_us": sync.total_us,
        "remark": tuple(remark),
    }
