"""Round trips in the report: ops on the CPU between ops on the device, and what to move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.model.transfers import (
    MovedOp,
    RoundTripMove,
    RoundTripRecord,
    RoundTripTransfers,
)
from traceanalyzer.placement.devices import CPU, GPU
from traceanalyzer.placement.registry import DEFAULT, nearest
from traceanalyzer.report.convert import to_record, us

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.model import OpRef
    from traceanalyzer.transfers.cheapest_move import Move
    from traceanalyzer.transfers.round_trips import RoundTrip, RoundTripOp, TransferTotals

_MAX_ROUND_TRIPS: Final = 50
_MAX_OPS: Final = 100  # of one
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
    """Return the round trips of a run, those that copy most first; `refs` names ops by id."""
    cannot_move = _cannot_move(diagnosis)
    return tuple(
        _round_trip(found, found.cheapest_move(cannot_move), refs)
        for found in diagnosis.run.transfer_costs.round_trips[:_MAX_ROUND_TRIPS]
    )


def _cannot_move(diagnosis: Diagnosis) -> Callable[[RoundTripOp], bool]:
    registry = nearest(diagnosis.run.tensorflow_version).registry
    stuck = {
        op_id
        for finding in diagnosis.findings
        if {finding.cause, *(b.cause for b in finding.blockers)} & _CANNOT_MOVE
        for op_id in finding.op_ids
    }
    cpu_ops = diagnosis.cpu_ops

    def cannot_move(op: RoundTripOp) -> bool:
        if op.op_id in stuck:
            return True
        cpu_op = None if op.op_id is None else cpu_ops.get(op.op_id)
        if cpu_op is not None and cpu_op.explanation.kernels is not None:
            return not {GPU, DEFAULT} & set(cpu_op.explanation.kernels)
        op_type = op.type if cpu_op is None else cpu_op.explanation.type  # as the program has it
        devices = {kernel.device_type for kernel in registry.usable_kernels(op_type)}
        return DEFAULT not in devices and not {CPU, GPU} <= devices

    return cannot_move


def _round_trip(
    found: RoundTrip,
    move: Move[RoundTripOp] | None,
    refs: Callable[[Sequence[str]], tuple[OpRef, ...]],
) -> RoundTripRecord:
    known = [op.op_id for op in found.ops if op.op_id is not None]
    return RoundTripRecord(
        host=found.host,
        function=found.function,
        certainty=found.certainty,
        ops=refs(known[:_MAX_OPS]),
        ops_total=len(found.ops),
        unseen=tuple(op.name for op in found.ops if op.op_id is None)[:_MAX_OPS],
        between=refs([op.op_id for op in found.between if op.op_id is not None][:_MAX_OPS]),
        arriving=_copies(found.arriving),
        leaving=_copies(found.leaving),
        move=None if move is None else _move(found, move),
        is_weighed=found.is_weighed,
    )


def _copies(totals: TransferTotals) -> RoundTripTransfers:
    return to_record(RoundTripTransfers, totals, total_us=us(totals.time_ps))


def _move(found: RoundTrip, move: Move[RoundTripOp]) -> RoundTripMove:
    # If nothing is known of what is copied now, there is no figure for what is saved.
    figures = (move.saved, move.stays) if move.saved > 0 or move.stays > 0 else (None, None)
    in_bytes = found.basis == "bytes"
    saved_bytes, stays_bytes = figures if in_bytes else (None, None)
    saved_ps, stays_ps = (None, None) if in_bytes else figures
    return to_record(
        RoundTripMove,
        move,
        to_gpu=tuple(to_record(MovedOp, op) for op in move.to_gpu),
        to_cpu=tuple(to_record(MovedOp, op) for op in move.to_cpu),
        saved_bytes=saved_bytes,
        stays_bytes=stays_bytes,
        saved_us=us(saved_ps),
        stays_us=us(stays_ps),
    )
