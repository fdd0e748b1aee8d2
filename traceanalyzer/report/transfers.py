"""Transfers in the report: who copied what to whom, small transfers, and device-to-host syncs."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from traceanalyzer.model.transfers import (
    DeviceToHostSyncRecord,
    DeviceTransfers,
    SmallTransfersEdge,
    SmallTransfersRecord,
    TransferEdge,
    TransferGraph,
    TransferNode,
)
from traceanalyzer.report.convert import to_record, us
from traceanalyzer.transfers.graph import device_graph

if TYPE_CHECKING:
    from traceanalyzer.run import Run
    from traceanalyzer.transfers.costs import DeviceToHostSync, SmallTransfers

_MAX_EDGES: Final = 500
_MAX_SYNCS: Final = 100


def transfer_graph(run: Run) -> TransferGraph | None:
    """Return who copied what to whom; None if nothing was copied."""
    if run.transfers.empty:
        return None
    graph = run.transfer_graph
    edges = sorted(
        graph.edges(keys=True, data=True),
        key=lambda e: (-(e[3]["bytes"] or 0), -e[3]["count"], e[0], e[1], e[2]),
    )
    between_devices = device_graph(run.traffic).edges(keys=True, data=True)
    shown = edges[:_MAX_EDGES]
    costs = run.transfer_costs
    syncs = costs.device_to_host_syncs[:_MAX_SYNCS]
    nodes = dict.fromkeys(
        chain(
            (node for edge in shown for node in edge[:2]),
            (node for storm in costs.small_transfers for edge in storm.edges for node in edge[:2]),
            (sync.source for sync in syncs),
        )
    )
    return TransferGraph(
        nodes=tuple(to_record(TransferNode, graph.nodes[node], op_id=node) for node in nodes),
        edges=tuple(
            to_record(TransferEdge, figures, source=source, target=target, direction=direction)
            for source, target, direction, figures in shown
        ),
        devices=tuple(
            to_record(DeviceTransfers, figures, source=source, target=target, direction=direction)
            for source, target, direction, figures in sorted(between_devices, key=lambda e: e[:3])
        ),
        edges_total=len(edges),
        small_transfers=tuple(map(_small_transfers, costs.small_transfers)),
        device_to_host_syncs=tuple(map(_sync, syncs)),
        device_to_host_syncs_total=len(costs.device_to_host_syncs),
    )


def _whole(value: float | None) -> float | None:
    """Return a median as the whole number that it mostly is."""
    return int(value) if value is not None and float(value).is_integer() else value


def _small_transfers(found: SmallTransfers) -> SmallTransfersRecord:
    return to_record(
        SmallTransfersRecord,
        found,
        count_per_step=_whole(found.count_per_step),
        each_us=us(found.time_each_ps),
        total_us=us(found.time_ps),
        edges=tuple(SmallTransfersEdge(source=a, target=b, count=n) for a, b, n in found.edges),
    )


def _sync(found: DeviceToHostSync) -> DeviceToHostSyncRecord:
    return to_record(
        DeviceToHostSyncRecord,
        found,
        count_per_step=_whole(found.count_per_step),
        bytes_each=_whole(found.bytes_each),
        total_us=us(found.time_ps),
    )
