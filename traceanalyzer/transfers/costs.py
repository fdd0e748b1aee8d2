"""Finds the costs of a run's transfers: small transfers, device-to-host syncs, and round trips."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from traceanalyzer.capture_file.document import CaptureFile
from traceanalyzer.capture_file.function_records import UNKNOWN
from traceanalyzer.model import Certainty
from traceanalyzer.model.figures import (
    DeviceToHostSyncRecord,
    Reader,
    SmallTransfersEdge,
    SmallTransfersRecord,
)
from traceanalyzer.timeline.intervals import union
from traceanalyzer.transfers.round_trips import RoundTrip, round_trips
from traceanalyzer.transfers.traffic import HostFacts, Traffic
from traceanalyzer.units import PS_PER_S, PS_PER_US

_MANY: Final = 10  # small transfers in a step
_MANY_IN_A_TRACE: Final = 100  # without steps
_SLOWDOWN: Final = 4  # over the time that the bytes alone would take
_SLOWEST_BYTES_PER_S: Final = 1e9  # no GPU's link is slower: PCI Express 1 with four lanes
_MAX_EDGES: Final = 5

_SCALAR_BYTES: Final = 16  # a complex128
_REPEATED: Final = 3  # reads of a value, without steps
# control_flow_ops.cc, functional_ops.cc: ops that branch on the value of an input.
_CONTROL_FLOW: Final = frozenset(
    {
        *("Switch", "_SwitchN", "RefSwitch", "LoopCond", "If", "StatelessIf", "While"),
        *("StatelessWhile", "Case", "StatelessCase"),
    }
)
# lower_if_op.cc, lower_case_op.cc, lower_while_op.cc: the nodes that replace a control flow op have
# its name with a number (`Graph::NewName`), and branch on a bool or a branch index.
_LOWERED: Final = re.compile(r".+/_\d+")
_BOOL_BYTES: Final = 1
_NEVER: Final = 2**62
_ON_HOST: Final = frozenset({"_HostSend", "_HostRecv"})


@dataclass(frozen=True, eq=False, kw_only=True)
class TransferCosts:
    """The costs of a run's transfers. Each field lists the most expensive first."""

    small_transfers: tuple[SmallTransfersRecord, ...]
    device_to_host_syncs: tuple[DeviceToHostSyncRecord, ...]
    round_trips: tuple[RoundTrip, ...]


def transfer_costs(
    traffic: Traffic, ops: pd.DataFrame, hosts: Sequence[HostFacts]
) -> TransferCosts:
    """Find the costs of a run's transfers."""
    table = traffic.table
    return TransferCosts(
        small_transfers=_small_transfers(traffic),
        device_to_host_syncs=_device_to_host_syncs(traffic, ops, hosts),
        round_trips=tuple(
            round_trip
            for host in hosts
            for round_trip in round_trips(
                table[table["host"] == host.name],
                ops[ops["host"] == host.name],
                host.capture_file,
                None if host.joined is None else host.joined.records,
            )
        ),
    )


def _us(ps: float | None) -> float | None:
    return None if ps is None else float(ps) / PS_PER_US


# --- small transfers -----------------------------------------------------------------------------


def _small_transfers(traffic: Traffic) -> tuple[SmallTransfersRecord, ...]:
    """Find groups of many small transfers, longest total time first.

    A transfer is small if it takes more than four times as long as its bytes need on the link.
    """
    table = traffic.table
    rates = np.array([*(link.bytes_per_s for link in traffic.links), np.nan])[table["link"]]
    table = table.assign(
        least_ps=table["bytes"] / np.where(np.isnan(rates), _SLOWEST_BYTES_PER_S, rates) * PS_PER_S,
        is_rated=~np.isnan(rates),
    )
    is_small = table["duration_ps"].gt(0) & (table["duration_ps"] > _SLOWDOWN * table["least_ps"])
    small = table[is_small.fillna(value=False).astype(bool)]
    found = []
    ends = ["source_memory", "target_memory", "direction"]
    for _, own in small.groupby(ends, observed=True):
        source, target, direction = own[ends].iloc[0]
        counts = traffic.per_step(own)
        if np.median(counts) < _MANY if len(counts) else len(own) < _MANY_IN_A_TRACE:
            continue
        edges = own.groupby(["source", "target"], observed=True, as_index=False).size()
        ranked = sorted(edges.itertuples(index=False), key=lambda edge: (-edge[2], edge[:2]))
        found.append(
            SmallTransfersRecord(
                source=source,
                target=target,
                direction=direction,
                count=len(own),
                count_per_step=float(np.median(counts)) if len(counts) else None,
                bytes_each=float(own["bytes"].median()),
                total_us=float(own["duration_ps"].sum()) / PS_PER_US,
                each_us=float(own["duration_ps"].median()) / PS_PER_US,
                carrying_us=_us(own["least_ps"].sum()) if own["is_rated"].all() else None,
                edges=tuple(
                    SmallTransfersEdge(source=a, target=b, count=int(n))
                    for a, b, n in ranked[:_MAX_EDGES]
                ),
                edges_total=len(edges),
            )
        )
    return tuple(sorted(found, key=lambda s: (-s.total_us, s.source, s.target, s.direction)))


# --- device-to-host syncs ------------------------------------------------------------------------


def _device_to_host_syncs(
    traffic: Traffic, ops: pd.DataFrame, hosts: Sequence[HostFacts]
) -> tuple[DeviceToHostSyncRecord, ...]:
    """Find scalars that are read back in at least half of the steps, longest wait first."""
    table = _with_consumers(traffic.table, ops, hosts)
    is_scalar = table["bytes"].le(_SCALAR_BYTES).fillna(value=False)
    # Control flow branches on scalars only.
    is_scalar |= table["bytes"].isna() & table["is_predicate"]
    scalars = table[(table["direction"] == "d2h") & is_scalar.astype(bool)]
    found = []
    keys = ["host", "device", "via", "source", "target"]
    for _, own in scalars.groupby(keys, observed=True, dropna=False):
        counts = traffic.per_step(own)
        is_rare = 2 * np.count_nonzero(counts) < len(counts)
        if is_rare if len(counts) else len(own) < _REPEATED:
            continue
        first = own.iloc[0]
        times, sizes = own["duration_ps"].dropna(), own["bytes"].dropna()
        reader, certainty = _reader(first)
        found.append(
            DeviceToHostSyncRecord(
                host=str(first["host"]),
                device=_text(first["device"]),
                reader=reader,
                certainty=certainty,
                source=first["source"],
                source_name=_text(first["producer_name"]),
                consumer_name=_text(first["consumer_name"]),
                count=len(own),
                count_per_step=float(np.median(counts)) if len(counts) else None,
                bytes_each=float(sizes.median()) if len(sizes) else None,
                total_us=_us(times.sum()) if len(times) else None,
                wait_us=_us(_wait_ps(own)),
                idle_us=_us(_idle_after_ps(traffic, own)),
            )
        )
    return tuple(sorted(found, key=lambda r: (-(r.wait_us or 0), -r.count, r.source, r.host)))


def _with_consumers(
    table: pd.DataFrame, ops: pd.DataFrame, hosts: Iterable[HostFacts]
) -> pd.DataFrame:
    by_id = ops.set_index("op_id")
    names = table["consumer_name"].cat.categories
    recorded: dict[str, str] = {}
    for host in hosts:
        if host.capture_file is not None and len(names):
            recorded |= _node_types(host.capture_file, names)
    consumer, recorded_type = table["consumer"], table["consumer_name"].map(recorded.get)
    types = consumer.map(by_id["type"].astype(object).to_dict().get)
    return table.assign(
        recorded_type=recorded_type.astype(object),
        consumer_placement=consumer.map(by_id["placement"].astype(object).to_dict().get),
        consumer_certainty=consumer.map(by_id["placement_certainty"].astype(object).to_dict().get),
        is_predicate=types.isin(_CONTROL_FLOW) | recorded_type.isin(_CONTROL_FLOW),
    )


def _node_types(capture_file: CaptureFile, names: Iterable[str]) -> dict[str, str]:
    """Return the op type for each node name, if all nodes with that name have the same type."""
    instances = [i for f in capture_file.functions for i in f.instances]
    graphs = [graph for i in instances for graph in (i.input, *i.partitions)]
    found = {}
    for name in names:
        types = {g.ops[at] for g in graphs if (at := g.index(name)) != UNKNOWN}
        if len(types) == 1:
            found[name] = types.pop()
    return found


def _reader(transfer: pd.Series[Any]) -> tuple[Reader, Certainty]:
    name = _text(transfer["consumer_name"])
    if transfer["via"] == "python":
        return "python", "certain"
    if transfer["is_predicate"]:
        return "predicate", "certain"
    is_bool = transfer["bytes"] is not pd.NA and transfer["bytes"] == _BOOL_BYTES
    is_typed = isinstance(transfer["recorded_type"], str)
    if name is not None and is_bool and not is_typed and _LOWERED.fullmatch(name):
        return "predicate", "likely"
    if transfer["consumer_placement"] == "cpu":
        return "cpu_op", transfer["consumer_certainty"]
    if transfer["via"] in _ON_HOST and name is not None:
        return "host_argument", "likely"
    return "unknown", "possible"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _wait_ps(transfers: pd.DataFrame) -> int | None:
    """Return the total time between transfers' requests and their ends, or None if unknown."""
    known = transfers.dropna(subset=["launch_ps", "duration_ps"])
    requested = known["launch_ps"].to_numpy(np.int64)
    end = (known["start_ps"] + known["duration_ps"]).to_numpy(np.int64)
    sound = end >= requested  # otherwise the clocks of host and device disagree
    return union(requested[sound], (end - requested)[sound]).total_ps if sound.any() else None


def _idle_after_ps(traffic: Traffic, transfers: pd.DataFrame) -> int | None:
    """Return how long a device was idle right after its transfers, or None if unknown."""
    first = transfers.iloc[0]
    busy = traffic.busy.get((first["host"], first["device"]))
    if busy is None:
        return None
    timed = transfers[transfers["duration_ps"].notna()]
    end = (timed["start_ps"] + timed["duration_ps"]).to_numpy(np.int64)
    # A transfer that ends within a busy interval is followed by no idle time.
    place = np.searchsorted(busy.end_ps, end, side="right")
    idle = np.maximum(np.append(busy.start_ps, _NEVER)[place] - end, 0)
    is_known = idle < _NEVER - end
    return int(idle[is_known].sum()) if is_known.any() else None
