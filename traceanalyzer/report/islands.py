"""What the report says of islands: which ops values go back and forth for, and what to move."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.model import Island, IslandCopies, IslandMove, MovedOp
from traceanalyzer.placement.devices import CPU, GPU
from traceanalyzer.placement.kernels import DEFAULT
from traceanalyzer.placement.registry import nearest
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.model import OpRef
    from traceanalyzer.transfers.cheapest_move import Move
    from traceanalyzer.transfers.host_transfers import RoundTripOp, TransferTotals
    from traceanalyzer.transfers.round_trips import RoundTrip

__all__ = ["MAX_ISLANDS", "islands"]

MAX_ISLANDS: Final = 50
_MAX_OPS: Final = 100  # of one
# The causes that hold an op on the CPU whatever device the program asks for.
_CANNOT_MOVE: Final = frozenset(
    {
        *("no_gpu_kernel", "dtype_unsupported", "attr_unsupported", "python_callback"),
        *("custom_op", "host_pipeline", "remote_host"),
    }
)


def islands(
    diagnosis: Diagnosis, refs: Callable[[Sequence[str]], tuple[OpRef, ...]]
) -> tuple[Island, ...]:
    """Return the islands of a run, those that copy most first.

    Args:
        diagnosis: The findings: ops that cannot run on a GPU stay on the CPU.
        refs: Names ops of the op table by their ids.
    """
    cannot_move = _cannot_move(diagnosis)
    return tuple(
        _island(found, found.cheapest_move(cannot_move), refs)
        for found in diagnosis.run.transfer_costs.round_trips[:MAX_ISLANDS]
    )


def _cannot_move(diagnosis: Diagnosis) -> Callable[[RoundTripOp], bool]:
    """Return what tells of an op whether it has to stay on its side."""
    version = None if diagnosis.run.version is None else diagnosis.run.version.value
    registry = nearest(version).registry
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


def _island(
    found: RoundTrip,
    move: Move | None,
    refs: Callable[[Sequence[str]], tuple[OpRef, ...]],
) -> Island:
    known = [op.op_id for op in found.ops if op.op_id is not None]
    return Island(
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


def _copies(totals: TransferTotals) -> IslandCopies:
    return IslandCopies(
        count=totals.count,
        bytes=totals.bytes,
        total_us=None if totals.time_ps is None else totals.time_ps / PS_PER_US,
        exposed_us=None if totals.exposed_ps is None else totals.exposed_ps / PS_PER_US,
    )


def _move(found: RoundTrip, move: Move) -> IslandMove:
    by_bytes = found.basis == "bytes"
    # Where nothing is known of what is copied now, there is no figure for what is saved.
    is_known = move.saved > 0 or move.stays > 0
    return IslandMove(
        to_gpu=_ops(found, move.to_gpu),
        to_cpu=_ops(found, move.to_cpu),
        saved_bytes=move.saved if by_bytes and is_known else None,
        stays_bytes=move.stays if by_bytes and is_known else None,
        saved_us=None if by_bytes or not is_known else move.saved / PS_PER_US,
        stays_us=None if by_bytes or not is_known else move.stays / PS_PER_US,
        unknown_before=move.unknown_before,
        unknown_after=move.unknown_after,
    )


def _ops(found: RoundTrip, keys: Sequence[str]) -> tuple[MovedOp, ...]:
    ops = (found.op_of_key[key] for key in keys)
    return tuple(MovedOp(op_id=op.op_id, name=op.name, type=op.type) for op in ops)
