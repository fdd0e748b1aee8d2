"""Where the recorded time went, and how much of it CPU ops took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.format import duration_text, percent_text
from traceanalyzer.native.events import sum_by
from traceanalyzer.tables.step_kinds import eager_loop
from traceanalyzer.tables.thread_activity import ThreadState
from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.timeline.intervals import inside_ps, union, without
from traceanalyzer.timeline.phase import Phase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from traceanalyzer.run import Host, Run
    from traceanalyzer.timeline.intervals import Intervals
    from traceanalyzer.timeline.walk import Parts

_PROGRAM: Final = "your program, mostly Python"
_INPUT: Final = "the input pipeline"
_MADE: Final = "creating iterators (one per epoch, validation, or predict call)"
_RUNTIME: Final = "the TensorFlow runtime"
_READY: Final = "tracing and preparing functions"
_COPIES: Final = "transfers between host and device"
_OPS: Final = "CPU ops"
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
_AROUND_OPS: Final = (_PROGRAM, _RUNTIME)  # that running as a graph saves
_LEAST_AROUND: Final = 0.2  # of the time, to be mentioned beside ops that take more
_LEAST_NAMED: Final = 0.1  # of the time, to be mentioned as a second part
_LEAST_KNOWN: Final = 0.5  # of the time from a host's first event to its last


@dataclass(frozen=True)
class Spent:
    """Where the recorded time of a host went."""

    total_ps: int  # what is accounted for, from the first event to the last
    parts_ps: Mapping[str, int]  # by words for each part, the longest first
    cpu_ops_ps: int


def spent(run: Run) -> Spent | None:
    """Return where the time of a run went, for the host and device that were idle most.

    None if it is unknown for most of the time: a call that was still running when the recording
    ended has no event.
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
    """Return how much of the runtime's work lies where some thread ran an op on the CPU.

    An op may work in threads that no event links to its call, as a dataset's reduce does. Then the
    call seems to wait for the runtime.
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
    """Return which parts are eager ops that create an input pipeline."""
    ops = host.tables.ops
    makes = (ops["is_eager"] & (ops["role"] == Role.INPUT_PIPELINE)).to_numpy(bool)
    return np.append(makes, False)[parts.row]


def most_of_the_time(run: Run) -> list[str]:
    """Say what takes most of the recorded time, and how much of it CPU ops take.

    Empty if CPU ops or a device take most of it, or if that is unknown.
    """
    found = spent(run)
    most = _UNKNOWN if found is None else next(iter(found.parts_ps))
    if found is None or most in {_DEVICE, _UNKNOWN}:
        return []
    ops_ps = found.cpu_ops_ps
    ops = (
        f"{duration_text(ops_ps)} ({percent_text(ops_ps / found.total_ps)})"
        if ops_ps
        else "nothing"
    )
    if 2 * ops_ps >= found.parts_ps[most]:  # a cost of the same order
        around_ps = sum(found.parts_ps[part] for part in _AROUND_OPS)
        loop = _eager(run) if around_ps >= _LEAST_AROUND * found.total_ps else []
        return [f"CPU ops take {ops} of the recorded time.", *loop] if loop else []
    named = {
        part: ps
        for part, ps in list(found.parts_ps.items())[:2]
        if part == most or (part in _NAMED and ps >= _LEAST_NAMED * found.total_ps)
    }
    texts = [
        f"{part} ({duration_text(ps)}, {percent_text(ps / found.total_ps)})"
        for part, ps in named.items()
    ]
    how_much = "Most" if 2 * sum(named.values()) > found.total_ps else "The largest part"
    start = f"{how_much} of the {duration_text(found.total_ps)} recorded"
    loop = _eager(run) if most in _AROUND_OPS else []
    if found.parts_ps[_DEVICE]:
        device = "GPU" if run.gpu_used else "device"
        waits = f"the {device} waits for {' and '.join(texts)}; it waits {ops} for CPU ops"
        return [f"For {start[0].lower()}{start[1:]}, {waits}.", *loop]
    return [f"{start} goes to {' and '.join(texts)}; CPU ops take {ops}.", *loop]


def _eager(run: Run) -> list[str]:
    """Say that Python runs the ops of a step one by one, if it does."""
    loop = eager_loop(run.ops, run.steps)
    if loop is None:
        return []
    place = f" ({loop.place})" if loop.place else ""
    one_by_one = f"Python runs the {loop.ops:,} ops of a step one by one{place}"
    return [f"{one_by_one}; under @tf.function they would run as one graph."]
