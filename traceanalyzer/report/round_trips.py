"""Round trips in the report: ops on the CPU between ops on the device, and what to move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.format import counted, listed, size_text
from traceanalyzer.model import blocks as b
from traceanalyzer.model.figures import (
    MovedOp,
    RoundTripMove,
    RoundTripRecord,
    RoundTripTransfers,
)
from traceanalyzer.placement.devices import CPU, GPU
from traceanalyzer.placement.registry import DEFAULT, nearest
from traceanalyzer.report.records import to_record, us
from traceanalyzer.report.text import op_link

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.model import OpRef
    from traceanalyzer.transfers.cheapest_move import Move
    from traceanalyzer.transfers.round_trips import RoundTrip, RoundTripOp

_MAX_ROUND_TRIPS: Final = 50
_MAX_OPS: Final = 100  # of one round trip
_SHOWN: Final = 10
_OPS_NAMED: Final = 3
# The causes that keep an op on the CPU whatever device the program requests.
_CANNOT_MOVE: Final = frozenset(
    {
        *("no_gpu_kernel", "dtype_unsupported", "attr_unsupported", "python_callback"),
        *("custom_op", "host_pipeline", "remote_host"),
    }
)


def round_trips(
    diagnosis: Diagnosis, refs: Callable[[Sequence[str]], tuple[OpRef, ...]]
) -> tuple[RoundTripRecord, ...]:
    """Return the round trips of a run, most bytes copied first; `refs` names ops by id."""
    cannot_move = _cannot_move(diagnosis)
    records = []
    for found in diagnosis.run.transfer_costs.round_trips[:_MAX_ROUND_TRIPS]:
        move = found.cheapest_move(cannot_move)
        known = [op.op_id for op in found.ops if op.op_id is not None]
        record = RoundTripRecord(
            host=found.host,
            function=found.function,
            certainty=found.certainty,
            ops=refs(known[:_MAX_OPS]),
            ops_total=len(found.ops),
            unseen=tuple(op.name for op in found.ops if op.op_id is None)[:_MAX_OPS],
            arriving=found.arriving,
            leaving=found.leaving,
            move=None if move is None else _move(found, move),
            is_weighed=found.is_weighed,
        )
        records.append(record)
    return tuple(records)


def _cannot_move(diagnosis: Diagnosis) -> Callable[[RoundTripOp], bool]:
    registry = nearest(diagnosis.run.tensorflow_version).registry
    stuck = {
        op_id
        for finding in diagnosis.findings
        if {finding.cause, *(each.cause for each in finding.blockers)} & _CANNOT_MOVE
        for op_id in finding.op_ids
    }

    def cannot_move(op: RoundTripOp) -> bool:
        if op.op_id in stuck:
            return True
        cpu_op = None if op.op_id is None else diagnosis.cpu_ops.get(op.op_id)
        if cpu_op is not None and cpu_op.explanation.kernels is not None:
            return not {GPU, DEFAULT} & set(cpu_op.explanation.kernels)
        op_type = op.type if cpu_op is None else cpu_op.explanation.type  # as in the program
        devices = {kernel.device_type for kernel in registry.usable_kernels(op_type)}
        return DEFAULT not in devices and not {CPU, GPU} <= devices

    return cannot_move


def _move(found: RoundTrip, move: Move[RoundTripOp]) -> RoundTripMove:
    # If the cost of the present transfers is unknown, so is the saving.
    figures = (move.saved, move.stays) if move.saved > 0 or move.stays > 0 else (None, None)
    unknown = (None, None)
    in_bytes, in_ps = (figures, unknown) if found.basis == "bytes" else (unknown, figures)

    return to_record(
        RoundTripMove,
        move,
        to_gpu=tuple(to_record(MovedOp, op) for op in move.to_gpu),
        to_cpu=tuple(to_record(MovedOp, op) for op in move.to_cpu),
        saved_bytes=in_bytes[0],
        stays_bytes=in_bytes[1],
        saved_us=us(in_ps[0]),
        stays_us=us(in_ps[1]),
    )


# --- on the page -----------------------------------------------------------------------------


def round_trip_fold(found: Sequence[RoundTripRecord]) -> Iterator[b.Fold]:
    """Yield one line that opens, if there are any."""
    if not found:
        return
    trips = counted(len(found), "round trip")
    summary = f"{trips}: CPU ops that take values from a GPU and return values to it"
    if len(found) > _SHOWN:
        summary += f" (the {_SHOWN} that copy most)"
    items = b.Bullets(items=tuple(map(_words, found[:_SHOWN])))
    yield b.Fold(id="round-trips", summary=(summary,), blocks=(items,))


def _words(trip: RoundTripRecord) -> b.Text:
    named: list[b.Inline] = [op_link(op.name, op.op_id) for op in trip.ops[:_OPS_NAMED]]
    named += trip.unseen[: _OPS_NAMED - len(named)]
    ops = [part for name in named for part in (name, ", ")][:-1]
    more = trip.ops_total - len(named)
    rest = f" and {more:,} more" if more > 0 else ""
    crossing = f"{rest}: {_crossing(trip.arriving)} from a GPU, {_crossing(trip.leaving)} to one"
    certainty = "" if trip.certainty == "certain" else f" ({trip.certainty})"
    return (*ops, f"{crossing}{certainty}. ", _advice(trip))


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
    more = [f"{len(ops) - _OPS_NAMED:,} more"] if len(ops) > _OPS_NAMED else []
    return listed([*(op.name for op in ops[:_OPS_NAMED]), *more])
