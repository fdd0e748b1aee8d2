"""What the transfers of a run cost, host by host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from traceanalyzer.transfers.device_to_host_syncs import device_to_host_syncs
from traceanalyzer.transfers.measured_round_trips import measured_round_trips
from traceanalyzer.transfers.recorded_graphs import RecordedGraphs, node_types
from traceanalyzer.transfers.recorded_round_trips import recorded_round_trips
from traceanalyzer.transfers.round_trips import HostTransfers
from traceanalyzer.transfers.small_transfers import small_transfers
from traceanalyzer.transfers.traffic import hardware_links, traffic
from traceanalyzer.transfers.transfer_steps import transfer_steps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from traceanalyzer.capture_file.document import CaptureFile
    from traceanalyzer.tables.joined import Joined
    from traceanalyzer.transfers.device_to_host_syncs import DeviceToHostSync
    from traceanalyzer.transfers.round_trips import RoundTrip
    from traceanalyzer.transfers.small_transfers import SmallTransfers
    from traceanalyzer.transfers.traffic import Traffic


@dataclass(frozen=True, eq=False, kw_only=True)
class HostFacts:
    """What is known of a host beside its tables."""

    name: str
    device_properties: Mapping[str, Mapping[str, str]]  #: by device plane
    capture_file: CaptureFile | None
    joined: Joined | None  #: its op table, joined with the capture file


@dataclass(frozen=True, eq=False, kw_only=True)
class TransferCosts:
    """What the transfers of a run cost, each the most expensive first."""

    small_transfers: tuple[SmallTransfers, ...]
    device_to_host_syncs: tuple[DeviceToHostSync, ...]
    round_trips: tuple[RoundTrip, ...]


def run_traffic(
    transfers: pd.DataFrame, kernels: pd.DataFrame, hosts: Sequence[HostFacts]
) -> Traffic:
    """Measure the transfers of a run against what is known of its hosts' links."""
    links = {}
    for host in hosts:
        gpus = host.capture_file.gpus if host.capture_file else ()
        for (device, direction), link in hardware_links(host.device_properties, gpus).items():
            links[host.name, device, direction] = link
    return traffic(transfers, kernels, links)


def transfer_costs(
    transfers: pd.DataFrame,
    ops: pd.DataFrame,
    steps: pd.DataFrame,
    measured: Traffic,
    hosts: Sequence[HostFacts],
) -> TransferCosts:
    """Find what the transfers of a run cost; `measured` is as from `run_traffic`."""
    in_steps = transfer_steps(transfers, steps)
    takers = [str(name) for name in transfers["consumer_name"].cat.categories]
    types: dict[str, str] = {}
    for host in hosts:
        if host.capture_file is not None and takers:
            types |= node_types(host.capture_file, takers)
    return TransferCosts(
        small_transfers=small_transfers(transfers, measured, in_steps),
        device_to_host_syncs=device_to_host_syncs(transfers, ops, measured, in_steps, types),
        round_trips=tuple(r for host in hosts for r in _round_trips(transfers, ops, host)),
    )


def _round_trips(transfers: pd.DataFrame, ops: pd.DataFrame, host: HostFacts) -> list[RoundTrip]:
    """Find the round trips of a host: by the graphs of a capture, if any, and by transfers."""
    rows = ops[ops["host"] == host.name]
    own = HostTransfers(transfers[transfers["host"] == host.name], rows)
    if not len(own.leaving):
        return []
    found: list[RoundTrip] = []
    has_graphs = host.capture_file is not None and host.joined is not None
    if host.capture_file is not None and host.joined is not None:
        functions = rows["function"].astype(object)
        labels = functions.where(functions.notna(), None).tolist()
        graphs = RecordedGraphs(host.capture_file, host.joined.records, labels)
        found += recorded_round_trips(own, graphs)
    op_ids = {op.op_id for round_trip in found for op in round_trip.ops}
    found += measured_round_trips(own, op_ids, guess=not has_graphs)
    return sorted(found, key=lambda round_trip: round_trip.order)
