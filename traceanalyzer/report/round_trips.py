"""Round trips in the report: ops on the CPU between ops on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.format import counted, series, size_text
from traceanalyzer.model import blocks as b
from traceanalyzer.model.figures import RoundTripRecord
from traceanalyzer.placement.devices import CPU, GPU
from traceanalyzer.placement.registry import DEFAULT, nearest
from traceanalyzer.report.text import op_link

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.model import OpRef
    from traceanalyzer.model.figures import RoundTripTransfers
    from traceanalyzer.transfers.round_trips import RoundTripOp

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
    stays = _cannot_move(diagnosis)
    records = []
    for found in diagnosis.run.transfer_costs.round_trips[:_MAX_ROUND_TRIPS]:
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
            cannot_move=tuple(op.name for op in found.ops if stays(op))[:_MAX_OPS],
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
    can_move = "TensorFlow has a GPU kernel for each of these op types."
    if trip.cannot_move:
        can_move = f"Cannot run on a GPU: {series(trip.cannot_move, _OPS_NAMED)}."
    return (*ops, f"{crossing}{certainty}. {can_move}")


def _crossing(copies: RoundTripTransfers) -> str:
    if copies.count is None:
        return "transfers that are not recorded"
    size = "an unknown size" if copies.bytes is None else size_text(copies.bytes)
    return f"{size} in {counted(copies.count, 'transfer')}"
