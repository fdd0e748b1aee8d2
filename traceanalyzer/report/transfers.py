"""Reports on transfers: their ops, small transfers, device-to-host syncs, and round trips."""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Final

from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.format import counted, percent_text, series
from traceanalyzer.model import OpRef
from traceanalyzer.model import blocks as b
from traceanalyzer.model import figures as m
from traceanalyzer.placement.devices import CPU, GPU
from traceanalyzer.placement.registry import DEFAULT, nearest
from traceanalyzer.report.records import to_record
from traceanalyzer.report.text import fill, in_bytes, listing, op_link, table_of, time, word
from traceanalyzer.run import Run
from traceanalyzer.tables.vocabulary import PYTHON_CALLBACKS
from traceanalyzer.transfers.graph import device_graph
from traceanalyzer.transfers.groups import transfer_flows
from traceanalyzer.transfers.round_trips import RoundTripOp

_MAX_EDGES: Final = 500
_MAX_SYNCS: Final = 100
_MAX_ROUND_TRIPS: Final = 50
_MAX_OPS: Final = 100  # of one round trip
_MOST_OF_A_KIND: Final = 10  # rows for parts of one direction
_TRIPS_SHOWN: Final = 10
_OPS_NAMED: Final = 3


def transfer_graph(run: Run) -> m.TransferGraph | None:
    """Return the transfers between ops and between devices, or None if there are no transfers."""
    if run.transfers.empty:
        return None
    graph, costs = run.transfer_graph, run.transfer_costs
    between_ops = [_edge(*edge) for edge in graph.edges(keys=True, data=True)]
    between_ops.sort(key=lambda e: (-(e.bytes or 0), -e.count, e.source, e.target, e.direction))
    edges, syncs = between_ops[:_MAX_EDGES], costs.device_to_host_syncs[:_MAX_SYNCS]
    devices = [_edge(*edge) for edge in device_graph(run.traffic).edges(keys=True, data=True)]
    ends = [(edge.source, edge.target) for edge in edges]
    ends += [(e.source, e.target) for small in costs.small_transfers for e in small.edges]
    nodes = dict.fromkeys([*chain.from_iterable(ends), *(sync.source for sync in syncs)])
    return m.TransferGraph(
        nodes=tuple(to_record(m.TransferNode, graph.nodes[node], op_id=node) for node in nodes),
        edges=tuple(edges),
        devices=tuple(sorted(devices, key=lambda e: (e.source, e.target, e.direction))),
        edges_total=len(between_ops),
        small_transfers=costs.small_transfers,
        device_to_host_syncs=syncs,
        device_to_host_syncs_total=len(costs.device_to_host_syncs),
    )


def _edge(source: str, target: str, direction: str, of: Mapping[str, object]) -> m.TransferEdge:
    return to_record(m.TransferEdge, of, source=source, target=target, direction=direction)


# --- round trips, as data --------------------------------------------------------------------


def round_trips(
    diagnosis: Diagnosis, refs: Callable[[Sequence[str]], tuple[OpRef, ...]]
) -> tuple[m.RoundTripRecord, ...]:
    """Return the round trips of a run, most bytes first. `refs` converts op ids to ops."""
    stays = _cannot_move(diagnosis)
    return tuple(
        to_record(
            m.RoundTripRecord,
            found,
            ops=refs([op.op_id for op in found.ops if op.op_id is not None][:_MAX_OPS]),
            ops_total=len(found.ops),
            unseen=tuple(op.name for op in found.ops if op.op_id is None)[:_MAX_OPS],
            cannot_move=tuple(op.name for op in found.ops if stays(op))[:_MAX_OPS],
        )
        for found in diagnosis.run.transfer_costs.round_trips[:_MAX_ROUND_TRIPS]
    )


def _cannot_move(diagnosis: Diagnosis) -> Callable[[RoundTripOp], bool]:
    registry = nearest(diagnosis.run.tensorflow_version).registry

    def cannot_move(op: RoundTripOp) -> bool:
        cpu_op = diagnosis.cpu_ops.get(op.op_id or "")
        op_type = op.type if cpu_op is None else cpu_op.explanation.type  # as in the program
        if op_type in PYTHON_CALLBACKS:
            return True
        if cpu_op is not None and cpu_op.explanation.kernels is not None:
            return not {GPU, DEFAULT} & set(cpu_op.explanation.kernels)
        devices = {kernel.device_type for kernel in registry.usable_kernels(op_type)}
        return DEFAULT not in devices and not {CPU, GPU} <= devices

    return cannot_move


# --- the tab ---------------------------------------------------------------------------------


def transfers_tab(
    run: Run, graph: m.TransferGraph | None, round_trips: Sequence[m.RoundTripRecord]
) -> b.Tab | None:
    """Return the "Transfers" tab, or None if there are no transfers."""
    if graph is None:
        return None
    blocks: list[b.Block] = [transfer_flows(run.traffic, run.ops), _table(graph)]
    if round_trips:
        trips = counted(len(round_trips), "round trip")
        summary = f"{trips}: CPU ops that take values from a GPU and return values to it"
        rows = [*map(_round_trip, round_trips[:_TRIPS_SHOWN])]
        table = table_of("round_trips", rows, len(round_trips))
        blocks.append(b.Fold(id="round-trips", summary=(summary,), blocks=(table,)))
    return b.Tab(id="transfers", title="Transfers", blocks=tuple(blocks))


def _table(graph: m.TransferGraph) -> b.Table:
    """Return a table with a row per direction, each followed by its small transfers and syncs."""
    names = {node.op_id: node.label for node in graph.nodes}
    rows: list[dict[str, b.Cell]] = []
    for copies in graph.devices:
        rows.append(_direction(copies))
        ends = (copies.source, copies.target)
        many = [s for s in graph.small_transfers if (s.source, s.target) == ends]
        rows += [_small(small, names) for small in many[:_MOST_OF_A_KIND]]
        syncs = [
            sync
            for sync in graph.device_to_host_syncs
            if copies.direction == "d2h"
            and (sync.device or copies.source).rpartition("/device:")[2].lower() == copies.source
        ]
        rows += [_sync(sync) for sync in syncs[:_MOST_OF_A_KIND]]
    return table_of("transfers", rows, table_id="transfers-table")


def _direction(copies: m.TransferEdge) -> dict[str, b.Cell]:
    hidden, remarks = None, []
    if copies.hidden_us is not None and copies.total_us:
        hidden = min(1.0, copies.hidden_us / copies.total_us)
    if copies.bytes_per_s and copies.link_bytes_per_s and copies.link_source:
        share = min(1.0, copies.bytes_per_s / copies.link_bytes_per_s)
        remarks.append(f"{percent_text(share)} {word('link', copies.link_source)}")
    if copies.pageable_count:
        of = f"{copies.pageable_count:,} of {copies.count:,}"
        remarks.append(f"{of} from or to pageable memory")
    return {
        **vars(copies),
        "transfers": word("direction", copies.direction),
        "hidden_share": hidden,
        "remark": "; ".join(remarks) or None,
    }


def _small(small: m.SmallTransfersRecord, names: Mapping[str, str]) -> dict[str, b.Cell]:
    remark = fill("{} each", in_bytes(small.bytes_each))
    if small.carrying_us is not None and small.total_us:
        carrying = percent_text(small.carrying_us / small.total_us)
        remark = fill("{}; copying the bytes takes only {} of the time", remark, carrying)
    for edge in small.edges[:1]:
        source, target = (_node_link(end, names) for end in (edge.source, edge.target))
        remark = fill("{}; most from {} to {}", remark, source, target)
    return {**vars(small), "transfers": "of these: small transfers", "remark": remark}


def _node_link(node: str, names: Mapping[str, str]) -> b.Inline:
    label = names.get(node, node)
    return op_link(label, None if label == node or node.startswith("name:") else node)


def _sync(sync: m.DeviceToHostSyncRecord) -> dict[str, b.Cell]:
    name, remark = sync.source_name, fill(word("reader", sync.reader))
    if sync.consumer_name is not None:
        remark = fill("{}: {}", remark, b.Code(text=sync.consumer_name))
    if sync.certainty != "certain" and sync.reader != "unknown":
        remark = fill("{} ({})", remark, sync.certainty)
    if sync.wait_us:
        remark = fill("{}; waited for {}", remark, time(sync.wait_us))
    if sync.idle_us:
        remark = fill("{}; then the GPU was idle for {}", remark, time(sync.idle_us))
    return {
        **vars(sync),
        "transfers": "of these: device-to-host sync",
        "source": "unknown op" if name is None else (_node_link(sync.source, {sync.source: name}),),
        "target": "host",
        "remark": remark,
    }


def _round_trip(trip: m.RoundTripRecord) -> dict[str, b.Cell]:
    names: list[b.Inline] = [op_link(op.name, op.op_id) for op in trip.ops[:_OPS_NAMED]]
    names += trip.unseen[: _OPS_NAMED - len(names)]
    more = [f"{trip.ops_total - len(names):,} more"] * (trip.ops_total > len(names))
    can_move = "TensorFlow has a GPU kernel for each of these op types"
    if trip.cannot_move:
        can_move = f"cannot run on a GPU: {series(trip.cannot_move, _OPS_NAMED)}"
    return {
        "ops": listing([(name,) for name in (*names, *more)], most=len(names) + 1),
        "arriving": trip.arriving.count,
        "arriving_bytes": trip.arriving.bytes,
        "leaving": trip.leaving.count,
        "leaving_bytes": trip.leaving.bytes,
        "certainty": trip.certainty,
        "remark": can_move,
    }
