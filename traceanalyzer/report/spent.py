"""Where the recorded time went: what takes most of it, and what ops on the CPU are of that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.native.events import sum_by
from traceanalyzer.report.text import duration
from traceanalyzer.tables.step_kinds import eager_loop
from traceanalyzer.tables.thread_activity import ThreadState
from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.timeline.intervals import inside_ps, union, without
from traceanalyzer.timeline.phase import Phase
from traceanalyzer.units import PS_PER_US
from traceanalyzer.wording import percent_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from traceanalyzer.run import Host, Run
    from traceanalyzer.timeline.intervals import Intervals
    from traceanalyzer.timeline.walk import Parts

__all__ = ["Spent", "most_of_the_time", "spent"]

_PROGRAM: Final = "your program, mostly Python"
_INPUT: Final = "the input pipeline"
_MADE: Final = "making iterators, one for each epoch, validation or call of predict"
_RUNTIME: Final = "TensorFlow's own work around the ops"
_READY: Final = "tracing functions and making them ready"
_COPIES: Final = "copies between host and device"
_OPS: Final = "ops on the CPU"
_DEVICE: Final = "the device's own work"
_UNKNOWN: Final = ""
_PART_OF: Final[Mapping[Phase, str]] = {
    Phase.HOST_OP: _OPS,
    Phase.UNPLACED: _OPS,
    Phase.INPUT: _INPUT,
    Phase.LAUNCH: _RUNTIME,
    Phase.RUNTIME: _RUNTIME,
    Phase.PROGRAM: _PROGRAM,
    Phase.COMPUTE: _DEVICE,
    Phase.QUEUED: _DEVICE,
    Phase.OTHER_DEVICE: _DEVICE,
    Phase.COPY: _COPIES,
    Phase.UNATTRIBUTED: _UNKNOWN,
}
_NAMED: Final = frozenset({_READY, _PROGRAM, _INPUT, _MADE, _RUNTIME, _COPIES})
_AROUND_OPS: Final = (_PROGRAM, _RUNTIME)  # what a graph saves
_LEAST_AROUND: Final = 0.2  # of the time: worth a word beside ops that take more
_LEAST_NAMED: Final = 0.1  # of the time: a second part that is worth a word
_LEAST_KNOWN: Final = 0.5  # of the time from a host's first event to its last


@dataclass(frozen=True)
class Spent:
    """Where the recorded time of a host went.

    Attributes:
        total_ps: The time from the first event to the last that is accounted for.
        parts_ps: What took it, in words, the longest first.
        cpu_ops_ps: Of it, ops on the CPU.
    """

    total_ps: int
    parts_ps: Mapping[str, int]
    cpu_ops_ps: int


def spent(run: Run) -> Spent | None:
    """Return where the time of a run went, for the host and device that were idle the most.

    Returns:
        None where nothing tells, or of too little: of a call that was under way when the recording
        ended, the trace holds no event.
    """
    found = [_of(host, parts) for host in run.hosts for parts in _timelines(host)]
    known = [each for each in found if each.total_ps > 0]
    return min(known, key=lambda s: s.parts_ps.get(_DEVICE, 0) / s.total_ps, default=None)


def _timelines(host: Host) -> list[Parts]:
    program = host.timeline.program
    if program is None:
        return [device.parts for device in host.timeline.devices]
    known_ps = int((program.end_ps - program.start_ps).sum())
    return [program] if known_ps > _LEAST_KNOWN * (host.end_ps - host.start_ps) else []


def _of(host: Host, parts: Parts) -> Spent:
    took = parts.end_ps - parts.start_ps
    sums = sum_by(parts.phase.astype(np.int64), took, len(Phase) + max(Phase))
    by_part: dict[str, int] = {}
    for phase, part in _PART_OF.items():
        by_part[part] = by_part.get(part, 0) + int(sums[phase])
    made = int(took[(parts.phase == Phase.INPUT) & _makes_input(host, parts)].sum())
    if 2 * made > by_part[_INPUT]:
        by_part[_MADE] = made
        by_part[_INPUT] -= made
    making = host.tables.making
    within = union(making.start_ps, making.end_ps - making.start_ps)
    for part, phases in ((_RUNTIME, (Phase.RUNTIME, Phase.LAUNCH)), (_PROGRAM, (Phase.PROGRAM,))):
        chosen = np.isin(parts.phase, phases)
        inside = int(inside_ps(within, parts.start_ps[chosen], parts.end_ps[chosen]).sum())
        by_part[part] -= inside
        by_part[_READY] = by_part.get(_READY, 0) + inside
    beside = _beside_ops(host, parts, within)
    by_part[_RUNTIME] -= beside
    by_part[_OPS] += beside
    ordered = dict(sorted(by_part.items(), key=lambda item: -item[1]))
    return Spent(total_ps=int(took.sum()), parts_ps=ordered, cpu_ops_ps=by_part[_OPS])


def _beside_ops(host: Host, parts: Parts, making: Intervals) -> int:
    """Return how much of TensorFlow's own work lies where some thread ran an op on the CPU.

    An op may work in threads that nothing links to its call, as a dataset's reduce does: then the
    call seems to wait for TensorFlow alone.
    """
    lanes = host.tables.threads
    if lanes is None:
        return 0
    on_host = lanes.state == ThreadState.HOST_OP
    busy = union(lanes.start_ps[on_host], (lanes.end_ps - lanes.start_ps)[on_host])
    runtime = np.isin(parts.phase, (Phase.RUNTIME, Phase.LAUNCH))
    at = parts.start_ps[runtime], parts.end_ps[runtime]
    return int(inside_ps(without(busy, making), *at).sum())


def _makes_input(host: Host, parts: Parts) -> NDArray[np.bool_]:
    """Return which parts are eager ops of the input pipeline: they make it, and run nothing."""
    ops = host.tables.ops
    makes = (ops["is_eager"] & (ops["role"] == Role.INPUT_PIPELINE)).to_numpy(bool)
    return np.append(makes, False)[parts.row]


def most_of_the_time(run: Run) -> str:
    """Say what takes most of the recorded time and what ops on the CPU are of it.

    Returns:
        A sentence or two with a space behind; "" where ops on the CPU or a device take most, or
        close to it, or nothing tells.
    """
    found = spent(run)
    most = _UNKNOWN if found is None else next(iter(found.parts_ps))
    if found is None or most in {_DEVICE, _UNKNOWN}:
        return ""
    ops_ps = found.cpu_ops_ps
    ops = f"{_time(ops_ps)} ({percent_text(ops_ps / found.total_ps)})" if ops_ps else "nothing"
    if 2 * ops_ps >= found.parts_ps[most]:  # a cost of the same order
        around_ps = sum(found.parts_ps[part] for part in _AROUND_OPS)
        loop = _eager(run) if around_ps >= _LEAST_AROUND * found.total_ps else ""
        return f"Ops on the CPU take {ops} of the time recorded. {loop}" if loop else ""
    loop = _eager(run) if most in _AROUND_OPS else ""
    named = {
        part: ps
        for part, ps in list(found.parts_ps.items())[:2]
        if part == most or (part in _NAMED and ps >= _LEAST_NAMED * found.total_ps)
    }
    texts = [f"{part} ({_of_total(ps, found)})" for part, ps in named.items()]
    how_much = "Most" if 2 * sum(named.values()) > found.total_ps else "The largest part"
    start = f"{how_much} of the {_time(found.total_ps)} recorded"
    if found.parts_ps[_DEVICE]:
        device = "GPU" if run.gpu_used else "device"
        return (
            f"{start}, the {device} waits for {' and '.join(texts)}; it waits {ops} for ops on "
            f"the CPU. {loop}"
        )
    return f"{start} goes to {' and '.join(texts)}; ops on the CPU take {ops}. {loop}"


def _eager(run: Run) -> str:
    """Say that Python runs a step op by op, if it does."""
    loop = eager_loop(run.ops, run.steps)
    if loop is None:
        return ""
    place = f" ({loop.place})" if loop.place else ""
    return (
        f"Python runs the {loop.ops:,} ops of a step one by one{place}; a function decorated with "
        "@tf.function would run them as one graph. "
    )


def _of_total(ps: int, found: Spent) -> str:
    return f"{_time(ps)}, {percent_text(ps / found.total_ps)}"


def _time(ps: int) -> str:
    quantity = duration(ps / PS_PER_US)
    return f"{quantity.figure} {quantity.unit}"
