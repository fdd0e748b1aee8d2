"""The tab Transfers: a picture of who copies what to whom, and one table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.format import counted, listed, percent_text, size_text
from traceanalyzer.model.blocks import (
    Bullets,
    Code,
    Column,
    Flow,
    FlowNode,
    Flows,
    Fold,
    Quantity,
    Tab,
)
from traceanalyzer.report.sections.shared import op_link, table_of
from traceanalyzer.report.text import DIRECTIONS
from traceanalyzer.transfers.groups import transfer_groups
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traceanalyzer.model.blocks import Block, Cell, Inline, Table, Text
    from traceanalyzer.model.transfers import (
        DeviceToHostSyncRecord,
        DeviceTransfers,
        MovedOp,
        RoundTripRecord,
        RoundTripTransfers,
        SmallTransfersRecord,
        TransferGraph,
    )
    from traceanalyzer.run import Run
    from traceanalyzer.transfers.groups import Group

_MOST_OF_A_KIND: Final = 10  # rows about parts of a direction
_OPS_NAMED: Final = 3
_OF_THESE: Final = "of these: "
_LINKS: Final = {
    "pcie": "of what PCI Express carries",
    "memory": "of what the memory carries",
    "seen": "of the best rate seen",
}
_READERS: Final = {
    "python": "read by your program: print, float() or .numpy()",
    "predicate": "decides a tf.cond or a loop",
    "host_argument": "a GPU op takes it in host memory",
    "cpu_op": "a CPU op takes it",
    "unknown": "reader unknown",
}
_COLUMNS: Final = (
    Column(name="transfers", title="Transfers"),
    Column(name="source", title="From"),
    Column(name="target", title="To"),
    Column(name="count_per_step", title="Per step", kind="count"),
    Column(name="count", title="Count", kind="count"),
    Column(name="bytes", title="Bytes", kind="bytes"),
    Column(name="time_us", title="Time", kind="us"),
    Column(name="gpu_wait_us", title="GPU wait", kind="us"),
    Column(name="hidden_share", title="Under compute", kind="share"),
    Column(name="bytes_per_s", title="Rate", kind="bytes_per_s"),
    Column(name="remark", title="Remark"),
)


def transfers_tab(
    run: Run, graph: TransferGraph | None, round_trips: Sequence[RoundTripRecord]
) -> Tab | None:
    """Return the tab; None without transfers."""
    if graph is None:
        return None
    blocks = (_flows(run), _table(graph), *_round_trips(round_trips))
    count = sum(copies.count for copies in graph.devices)
    return Tab(id="transfers", title="Transfers", count=count, blocks=blocks)


# --- the picture -----------------------------------------------------------------------------


def _flows(run: Run) -> Flows:
    """Return all transfers between groups of ops; each transfer is in one flow."""
    groups = transfer_groups(run.traffic, run.ops)
    names = {node: str(known["label"]) for node, known in run.transfer_graph.nodes(data=True)}
    nodes: list[FlowNode] = []
    places: dict[tuple[str, int, str], int] = {}

    def place(side: str, number: int, group: Group, memory: str) -> int:
        key = (side, number, memory)
        if key not in places:
            places[key] = len(nodes)
            nodes.append(_node(group, memory, names))
        return places[key]

    flows = [
        Flow(
            source=place("source", f.source, groups.sources[f.source], f.source_memory),
            target=place("target", f.target, groups.targets[f.target], f.target_memory),
            bytes=f.sums["bytes"],
            count=f.sums["count"],
            us=_us(f.sums["total_ps"]),
            gpu_wait_us=_us(f.sums["exposed_ps"]),
        )
        for f in groups.flows
    ]
    return Flows(nodes=tuple(nodes), flows=tuple(flows))


def _us(ps: int | None) -> float | None:
    return None if ps is None else ps / PS_PER_US


def _node(group: Group, memory: str, names: dict[str, str]) -> FlowNode:
    first = group.nodes[0]
    if group.kind == "memory":
        return FlowNode(label="unknown op", memory=memory)
    if group.kind == "op":
        op_id = None if first.startswith("name:") else first
        return FlowNode(label=group.label, memory=memory, ops=1, op_id=op_id)
    label = f"{len(group.nodes):,} others" if group.kind == "others" else group.label
    return FlowNode(label=label or names[first], memory=memory, ops=len(group.nodes))


# --- the table -------------------------------------------------------------------------------


def _table(graph: TransferGraph) -> Table:
    """Return a row for each direction, and rows for what is remarkable among its transfers."""
    names = {node.op_id: node.label for node in graph.nodes}
    rows: list[dict[str, Cell]] = []
    for copies in graph.devices:
        rows.append(_direction(copies))
        ends = (copies.source, copies.target)
        many = [s for s in graph.small_transfers if (s.source, s.target) == ends]
        rows += [_small(small, names) for small in many[:_MOST_OF_A_KIND]]
        if copies.direction == "d2h":
            syncs = [s for s in graph.device_to_host_syncs if _is_of(s, copies.source)]
            rows += [_sync(sync) for sync in syncs[:_MOST_OF_A_KIND]]
    return table_of(_COLUMNS, rows, table_id="transfers-table")


def _is_of(sync: DeviceToHostSyncRecord, memory: str) -> bool:
    return sync.device is None or sync.device.rpartition("/device:")[2].lower() == memory


def _direction(copies: DeviceTransfers) -> dict[str, Cell]:
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


def _remarks(copies: DeviceTransfers) -> Iterator[str]:
    if copies.bytes_per_s and copies.link_bytes_per_s and copies.link_source:
        share = min(1.0, copies.bytes_per_s / copies.link_bytes_per_s)
        yield f"{percent_text(share)} {_LINKS[copies.link_source]}"
    if copies.pageable_count:
        yield f"{copies.pageable_count:,} of {copies.count:,} from or to pageable memory"
    elif copies.pinned_count:
        yield f"{copies.pinned_count:,} of {copies.count:,} from or to pinned memory"
    if copies.sync_count and copies.async_count:
        yield f"{copies.sync_count:,} synchronous"


def _small(small: SmallTransfersRecord, names: dict[str, str]) -> dict[str, Cell]:
    remark: list[Inline] = [Quantity(value=small.bytes_each, unit="bytes"), " each"]
    if small.carrying_us is not None and small.total_us:
        carrying = percent_text(small.carrying_us / small.total_us)
        remark.append(f"; the bytes alone need {carrying} of the time")
    for edge in small.edges[:1]:
        ends = (_op(edge.source, names), " to ", _op(edge.target, names))
        remark += ["; most from ", *ends]
    return {
        "transfers": f"{_OF_THESE}small transfers",
        "source": small.source,
        "target": small.target,
        "count_per_step": small.count_per_step,
        "count": small.count,
        "time_us": small.total_us,
        "remark": tuple(remark),
    }


def _op(node: str, names: dict[str, str]) -> Inline:
    label = names.get(node, node)
    is_op = label != node and not node.startswith("name:")  # else a memory, or an op without events
    return op_link(label, node if is_op else None)


def _sync(sync: DeviceToHostSyncRecord) -> dict[str, Cell]:
    source: Cell = "unknown op"
    if sync.source_name is not None:
        source = (_op(sync.source, {sync.source: sync.source_name}),)
    remark: list[Inline] = [_READERS[sync.reader]]
    if sync.consumer_name is not None:
        remark += [": ", Code(text=sync.consumer_name)]
    if sync.certainty != "certain" and sync.reader != "unknown":
        remark.append(f" ({sync.certainty})")
    for words, us in (("; waited for ", sync.wait_us), ("; GPU idle after it for ", sync.idle_us)):
        if us:
            remark += [words, Quantity(value=us, unit="us")]
    return {
        "transfers": f"{_OF_THESE}device-to-host sync",
        "source": source,
        "target": "host",
        "count_per_step": sync.count_per_step,
        "count": sync.count,
        "time_us": sync.total_us,
        "remark": tuple(remark),
    }


# --- round trips -----------------------------------------------------------------------------


def _round_trips(found: Sequence[RoundTripRecord]) -> Iterator[Block]:
    if not found:
        return
    items = tuple(_round_trip(trip) for trip in found[:_MOST_OF_A_KIND])
    trips = counted(len(found), "round trip")
    summary = f"{trips}: CPU ops that take values from a GPU and return values to it"
    if len(found) > len(items):
        summary += f" (the {len(items)} that copy most)"
    yield Fold(id="round-trips", summary=(summary,), blocks=(Bullets(items=items),))


def _round_trip(trip: RoundTripRecord) -> Text:
    ops: list[Inline] = []
    for op in trip.ops[:_OPS_NAMED]:
        ops += [op_link(op.name, op.op_id), ", "]
    ops += [part for name in trip.unseen[: _OPS_NAMED - len(trip.ops)] for part in (name, ", ")]
    more = trip.ops_total - min(_OPS_NAMED, len(trip.ops) + len(trip.unseen))
    rest = f" and {more:,} more" if more > 0 else ""
    crossing = f"{rest}: {_crossing(trip.arriving)} from a GPU, {_crossing(trip.leaving)} to one"
    certainty = "" if trip.certainty == "certain" else f" ({trip.certainty})"
    return (*ops[:-1], f"{crossing}{certainty}. ", _advice(trip))


def _crossing(copies: RoundTripTransfers) -> str:
    if copies.count is None:
        return "transfers that are not recorded"
    size = "an unknown size" if copies.bytes is None else size_text(copies.bytes)
    return f"{size} in {counted(copies.count, 'transfer')}"


def _advice(trip: RoundTripRecord) -> str:
    move = trip.move
    if move is None:
        return "No possible move would copy less." if trip.is_weighed else ""
    saved = "" if move.saved_bytes is None else f": saves {size_text(move.saved_bytes)}"
    moves = [
        f"{_named(ops)} to the {device}"
        for ops, device in ((move.to_gpu, "GPU"), (move.to_cpu, "CPU"))
        if ops
    ]
    return f"Least is copied with {listed(moves)}{saved}."


def _named(ops: Sequence[MovedOp]) -> str:
    names = [op.name for op in ops[:_OPS_NAMED]]
    if len(ops) > len(names):
        names.append(f"{len(ops) - len(names):,} more")
    return listed(names)
