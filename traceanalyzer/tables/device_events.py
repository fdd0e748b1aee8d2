"""What ran on the devices of one host, kernels and transfers, and which call launched each.

A launch and what it launched have the same correlation id: a counter of 32 bits that each process
has for itself, so in a long trace, or one of several processes, an id can recur. Work was launched
by the last call with its id that began before it. That is sure unless an earlier one of these
calls, or the next, has no work of its own. The work may then be that call's: work that waited long,
or that a clock which drifts puts before its call.

The profiler sets the clock of each device against the host's, each by itself, and may be off: where
work begins before it was launched, the times of that device are early by so much. One call may
launch many pieces (`cuGraphLaunch`), and only the first show that. Clocks also drift, so some work
is a little earlier yet.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from traceanalyzer.tables.arrays import (
    concatenate,
    constant,
    empty,
    filled,
    mapped,
    mask,
    matches,
    named_like,
    pick,
)
from traceanalyzer.tables.vocabulary import GPU_PLANE, is_derived_line, op_and_type
from traceanalyzer.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from traceanalyzer.tables.host_ops import HostOps
    from traceanalyzer.trace.columns import Plane, Trace

# cupti_utils.cc and rocm_tracer.cc name copies by direction; the rest are the runtimes' own calls.
_DIRECTIONS: Final = (
    (re.compile(r"Memcpy(?:H2D|HtoD)|CopyHostToDevice|(?:hip|cu\w*)MemcpyHtoD\w*"), "h2d"),
    (re.compile(r"Memcpy(?:D2H|DtoH)|CopyDeviceToHost|(?:hip|cu\w*)MemcpyDtoH\w*"), "d2h"),
    (re.compile(r"Memcpy(?:D2D|DtoD)|CopyDeviceToDevice|(?:hip|cu\w*)MemcpyDtoD\w*"), "d2d"),
    (re.compile(r"Memcpy(?:P2P|PtoP)|CopyPeerToPeer|(?:hip|cu\w*)MemcpyPeer\w*"), "p2p"),
    (re.compile(r"Memcpy(?:H2H|HtoH)"), "h2h"),
)
# cupti_collector.cc: allocations and how long they lived, drawn among the kernels.
_MEMORY_RECORDS: Final = ("MemoryResidency_details", "MemFree_details", "memalloc_details")
# On ROCm a copy may show as a kernel; its launch has the direction (seen in the corpus).
_COPY_KERNEL: Final = re.compile(r"__amd_rocclr_copyBuffer\w*(\.kd)?")
# Calls that wait for a device, and launch nothing.
SYNCHRONIZES: Final = re.compile(r"(?:cu|cuda|hip)\w*Synchronize(?:_v\d+)?")

_TOO_EARLY_SHARE: Final = 0.01  # calls whose work begins before them, until clocks are called off
_DRIFT_PS: Final = 100_000_000  # what is earlier than that is not so because of a clock


@dataclass(frozen=True, eq=False, kw_only=True)
class DeviceEvents:
    """Events of the device planes of one host; arrays have one entry an event."""

    #: Name of the kernel or transfer.
    name: Strings
    #: Name of the plane, `/device:GPU:0`.
    device: Strings
    #: Name of the line.
    stream: Strings
    start_ps: NDArray[np.int64]
    duration_ps: NDArray[np.int64]
    #: 0 where there is none, int64.
    correlation_id: NDArray[np.int64]
    #: Event of the host plane that launched it, -1 where unknown; int64.
    launch: NDArray[np.int64]
    #: Whether no other event can have been it: correlation ids recur.
    launch_is_sure: NDArray[np.bool_]
    #: By how much the clock of its device is early, int64.
    early_ps: NDArray[np.int64]
    #: Op it was launched for, `name:Type`, or none.
    op: Strings
    #: Stat `from` of a transfer, or none.
    producer: Strings
    #: Stat `to` of a transfer, or none.
    consumer: Strings
    #: Stat `edge_name` of a transfer, or none.
    edge: Strings
    #: `h2d`, `d2h`, `d2d`, `p2p`, `h2h` for a transfer; none for a kernel.
    direction: Strings
    #: Stat `memcpy_details` of a transfer, or none.
    details: Strings
    #: XLA op, or none.
    hlo_op: Strings
    #: Name of the op in the program that XLA compiled, or none.
    hlo_name: Strings
    #: XLA module, or none.
    hlo_module: Strings

    def __len__(self) -> int:
        return len(self.start_ps)

    @property
    def sure_launch(self) -> NDArray[np.int64]:
        """The event that launched each, -1 also where it may have been another."""
        return np.where(self.launch_is_sure, self.launch, -1)

    @property
    def end_ps(self) -> NDArray[np.int64]:
        """When each ended, by the host's clock."""
        return self.start_ps + self.early_ps + self.duration_ps


def device_planes(trace: Trace) -> list[Plane]:
    """Return the planes of GPUs and TPUs, with or without events."""
    return [p for p in trace.planes if GPU_PLANE.fullmatch(p.name)]


def device_events(trace: Trace, host: HostOps) -> DeviceEvents:
    """Collect the events of a host's device planes, derived lines left out."""
    planes = device_planes(trace)
    rows = [_own_events(plane) for plane in planes]

    def texts(column: Callable[[Plane], Strings]) -> Strings:
        return concatenate([column(p).take(r) for p, r in zip(planes, rows, strict=True)])

    def numbers(column: Callable[[Plane], NDArray[np.int64]]) -> NDArray[np.int64]:
        parts = [column(p)[r] for p, r in zip(planes, rows, strict=True)]
        return np.concatenate([np.empty(0, np.int64), *parts])

    correlation_id = numbers(lambda p: p.integers("correlation_id").values)
    start_ps = numbers(lambda p: p.start_ps)
    device = texts(lambda p: constant(p.name, len(p)))
    calls = host.launches
    launched = launched_by(
        host.plane.integers("correlation_id").values[calls],
        host.plane.start_ps[calls],
        correlation_id,
        start_ps,
        device.codes,
    )
    launch = pick(calls, launched.call)
    name = texts(_names)
    return DeviceEvents(
        name=name,
        device=device,
        stream=texts(lambda p: Strings(p.line_of, p.lines.name)),
        start_ps=start_ps,
        duration_ps=numbers(lambda p: p.duration_ps),
        correlation_id=correlation_id,
        launch=launch,
        launch_is_sure=launched.is_sure,
        early_ps=launched.early_ps[device.codes],
        op=texts(_ops),
        producer=texts(lambda p: p.strings("from")),
        consumer=texts(lambda p: p.strings("to")),
        edge=texts(lambda p: p.strings("edge_name")),
        direction=_directions(name, Strings(pick(host.plane.name_of, launch), host.plane.names)),
        details=texts(lambda p: p.strings("memcpy_details")),
        hlo_op=texts(_hlo_ops),
        hlo_name=texts(lambda p: p.strings("name")),
        hlo_module=texts(lambda p: p.strings("hlo_module")),
    )


def _own_events(plane: Plane) -> NDArray[np.int64]:
    """Return what ran on the device: no derived lines, and no records of memory."""
    lines = plane.lines
    derived = mask(map(is_derived_line, lines.name, lines.id.tolist()))
    chosen = np.flatnonzero(~derived[plane.line_of])
    for stat in _MEMORY_RECORDS:
        if plane.has_stat(stat):
            chosen = chosen[~plane.strings(stat).present[chosen]]
    return chosen


def _names(plane: Plane) -> Strings:
    # XLA's TPU events have the whole instruction as name, and its short name for display.
    if not plane.name.startswith("/device:TPU"):
        return Strings(plane.name_of, plane.names)
    pairs = zip(plane.names, plane.display_names, strict=True)
    return Strings(plane.name_of, tuple(display or name for name, display in pairs))


def _hlo_ops(plane: Plane) -> Strings:
    # On a TPU every event is an XLA op, and few of them say so.
    found = plane.strings("hlo_op")
    return filled(found, _names(plane)) if plane.name.startswith("/device:TPU") else found


def _ops(plane: Plane) -> Strings:
    """Read the op from `tf_op`, or else from `annotation` or `level 0` (TensorFlow 2.2 to 2.5)."""
    column = empty(len(plane))
    for stat in ("tf_op", "annotation", "level 0"):
        if plane.has_stat(stat):
            column = filled(column, mapped(plane.strings(stat), _normalised_op))
    return column


def _normalised_op(text: str) -> str | None:
    parsed = op_and_type(text)
    return ":".join(parsed) if parsed else None


def _directions(name: Strings, launch_name: Strings) -> Strings:
    own = mapped(name, _direction)
    is_copy_kernel = matches(name, _COPY_KERNEL.fullmatch)
    if not is_copy_kernel.any():
        return own
    by_launch = mapped(launch_name, _direction)
    codes = np.where(is_copy_kernel, by_launch.codes, np.int32(-1))
    return filled(own, Strings(codes, by_launch.values))


def _direction(name: str) -> str | None:
    return next((d for pattern, d in _DIRECTIONS if pattern.fullmatch(name)), None)


# --- launches --------------------------------------------------------------------------------


class Launched(NamedTuple):
    """What launched each piece of work."""

    #: Place of the call among those given, -1 where none is known; int64.
    call: NDArray[np.int64]
    #: Whether no other of these calls can have been it.
    is_sure: NDArray[np.bool_]
    #: By how much the clock of each device is early, int64.
    early_ps: NDArray[np.int64]


def launch_calls(plane: Plane) -> NDArray[np.int64]:
    """Return the events of a host that can launch work, by correlation id and then by start.

    Calls that merely wait for a device have an id too, and launch nothing.
    """
    column = plane.integers("correlation_id")
    can = column.present & (column.values != 0)
    can[named_like(plane, SYNCHRONIZES.fullmatch)] = False
    events = np.flatnonzero(can)
    by_id: NDArray[np.int64] = events[np.lexsort((plane.start_ps[events], column.values[events]))]
    return by_id


def launched_by(
    call_id: NDArray[np.int64],
    call_ps: NDArray[np.int64],
    work_id: NDArray[np.int64],
    work_ps: NDArray[np.int64],
    device: NDArray[np.int32],
) -> Launched:
    """Find the call that launched each piece of work.

    Ids of calls rise, and so do their times within an id. The id of work is 0 for none; its times
    are by the clock of its device, a number from 0.
    """
    call = np.full(len(work_id), -1, np.int64)
    is_sure = np.zeros(len(work_id), np.bool_)
    first = np.searchsorted(call_id, work_id)
    number = np.searchsorted(call_id, work_id, side="right") - first
    number[work_id == 0] = 0
    only, several = np.flatnonzero(number == 1), np.flatnonzero(number > 1)
    late_ps = work_ps[only] - call_ps[first[only]]
    early_ps = _early_ps(late_ps, first[only], device[only], int(device.max(initial=-1)) + 1)
    is_near = late_ps + early_ps[device[only]] >= -_DRIFT_PS
    # Where other work with the id is the call's, work from long before is of one not recorded.
    followed = np.zeros(len(call_id), np.bool_)
    followed[first[only[is_near]]] = True
    known = only[is_near | ~followed[first[only]]]
    call[known] = first[known]
    is_sure[known] = True
    if len(several):
        again = np.flatnonzero(call_id[1:] == call_id[:-1])
        shared = np.union1d(again, again + 1)
        at_ps = work_ps[several] + early_ps[device[several]]
        found = _last_before(call_id[shared], call_ps[shared], work_id[several], at_ps)
        call[several] = pick(shared, found)
        is_sure[several] = _is_sure(call_id[shared], found)
    return Launched(call, is_sure, early_ps)


def _early_ps(
    late_ps: NDArray[np.int64], call: NDArray[np.int64], device: NDArray[np.int32], devices: int
) -> NDArray[np.int64]:
    """Return by how much the clock of each device is early.

    Of each call only the earliest work counts: what follows depends on that work, not on the clock.
    Single calls prove nothing: the id of their work may be that of another.
    """
    early_ps = np.zeros(devices, np.int64)
    none = np.iinfo(np.int64).max
    for number in range(devices):
        on_it = device == number
        first_ps = np.full(int(call.max(initial=-1)) + 1, none)
        np.minimum.at(first_ps, call[on_it], late_ps[on_it])
        own = first_ps[first_ps != none].clip(-none)  # the least number has no opposite
        if len(own):
            rank = min(max(1, int(len(own) * _TOO_EARLY_SHARE)), len(own) - 1)
            early_ps[number] = max(0, -int(np.partition(own, rank)[rank]))
    return early_ps


def _last_before(
    call_id: NDArray[np.int64],
    call_ps: NDArray[np.int64],
    work_id: NDArray[np.int64],
    at_ps: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the last call with the id of each piece of work that began by then, -1 for none."""
    ids = np.concatenate([call_id, work_id])
    is_work = np.arange(len(ids)) >= len(call_id)
    order = np.lexsort((is_work, np.concatenate([call_ps, at_ps]), ids))
    last = np.maximum.accumulate(np.where(is_work[order], -1, np.arange(len(ids))))
    fits = (last >= 0) & (ids[order[last]] == ids[order])
    found = np.empty(len(ids), np.int64)
    found[order] = np.where(fits, order[last], -1)
    return found[len(call_id) :]


def _is_sure(call_id: NDArray[np.int64], call: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell for which work no earlier call with its id, nor the next, has none of its own."""
    without = np.bincount(call[call >= 0], minlength=len(call_id)) == 0
    before = np.cumsum(without) - without
    is_first_without = before == before[np.searchsorted(call_id, call_id)]
    is_next_without = np.append(without[1:] & (call_id[1:] == call_id[:-1]), np.False_)
    sure: NDArray[np.bool_] = (is_first_without & ~is_next_without)[call] & (call >= 0)
    return sure
