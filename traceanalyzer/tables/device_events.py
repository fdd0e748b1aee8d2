"""Collects the kernels and transfers on one host's devices, and the calls that launched them.

A call and the work that it launches share a correlation id. The launch is unknown if several calls
have that id.

The profiler aligns device clocks with the host's clock, but not exactly. If work begins before its
launch, the device's clock is behind by the difference. If a call launches many kernels
(`cuGraphLaunch`), only the first shows this. Clocks also drift, so some work is even earlier.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from traceanalyzer.tables.arrays import (
    Codes,
    Ints,
    coded,
    concatenate,
    filled,
    flags_at,
    mapped,
    mask,
    matches,
    pick,
)
from traceanalyzer.tables.host_ops import HostOps
from traceanalyzer.tables.vocabulary import GPU_PLANE, is_derived_line, op_label
from traceanalyzer.trace.columns import Plane, Trace
from traceanalyzer.trace.strings import Strings

# cupti_utils.cc and rocm_tracer.cc name copies by direction; the rest are calls of the runtimes.
_DIRECTIONS: Final = (
    (re.compile(r"Memcpy(?:H2D|HtoD)|CopyHostToDevice|(?:hip|cu\w*)MemcpyHtoD\w*"), "h2d"),
    (re.compile(r"Memcpy(?:D2H|DtoH)|CopyDeviceToHost|(?:hip|cu\w*)MemcpyDtoH\w*"), "d2h"),
    (re.compile(r"Memcpy(?:D2D|DtoD)|CopyDeviceToDevice|(?:hip|cu\w*)MemcpyDtoD\w*"), "d2d"),
    (re.compile(r"Memcpy(?:P2P|PtoP)|CopyPeerToPeer|(?:hip|cu\w*)MemcpyPeer\w*"), "p2p"),
    (re.compile(r"Memcpy(?:H2H|HtoH)"), "h2h"),
)
# cupti_collector.cc: allocations and their lifetimes, written among the kernels.
_MEMORY_RECORDS: Final = ("MemoryResidency_details", "MemFree_details", "memalloc_details")
# On ROCm a copy can appear as a kernel; its launch has the direction (seen in the corpus).
_COPY_KERNEL: Final = re.compile(r"__amd_rocclr_copyBuffer\w*(\.kd)?")

_TOO_EARLY_SHARE: Final = 0.01  # calls whose work may precede them before the clock counts as off
_DRIFT_PS: Final = 100_000_000  # clock drift explains no more than this


@dataclass(frozen=True, eq=False, kw_only=True)
class DeviceEvents:
    """The events of one host's devices. Arrays have one entry per event."""

    name: Strings  #: of the kernel or transfer
    device: Strings  #: name of the plane, `/device:GPU:0`
    stream: Strings  #: name of the line
    start_ps: Ints
    duration_ps: Ints
    correlation_id: Ints  #: 0 if not recorded
    launch: Ints  #: event of the host plane that launched it, -1 if unknown
    early_ps: Ints  #: how far the clock of its device is behind
    function: Strings  #: function it was launched in, if known
    op: Strings  #: op it was launched for, `name:Type`, or none
    producer: Strings  #: stat `from` of a transfer, or none
    consumer: Strings  #: stat `to` of a transfer, or none
    edge: Strings  #: stat `edge_name` of a transfer, or none
    direction: Strings  #: `h2d`, `d2h`, `d2d`, `p2p`, `h2h` for a transfer; none for a kernel
    details: Strings  #: stat `memcpy_details` of a transfer, or none
    hlo_op: Strings  #: XLA op, or none
    hlo_name: Strings  #: name of the op in the program that XLA compiled, or none
    hlo_module: Strings  #: XLA module, or none

    @property
    def end_ps(self) -> Ints:
        """The end of each event on the host's clock."""
        return self.start_ps + self.early_ps + self.duration_ps


def device_planes(trace: Trace) -> list[Plane]:
    """Return the planes of GPUs and TPUs, with or without events."""
    return [p for p in trace.planes if GPU_PLANE.fullmatch(p.name)]


def device_events(trace: Trace, host: HostOps) -> DeviceEvents:
    """Collect the events of a host's devices."""
    planes = device_planes(trace)
    rows = [_own_events(plane) for plane in planes]

    def texts(column: Callable[[Plane], Strings]) -> Strings:
        return concatenate([column(p).take(r) for p, r in zip(planes, rows, strict=True)])

    def numbers(column: Callable[[Plane], Ints]) -> Ints:
        parts = [column(p)[r] for p, r in zip(planes, rows, strict=True)]
        return np.concatenate([np.empty(0, np.int64), *parts])

    correlation_id = numbers(lambda p: p.integers("correlation_id").values)
    start_ps = numbers(lambda p: p.start_ps)
    device = texts(lambda p: coded(np.zeros(len(p)), (p.name,)))
    calls, plane = host.launches, host.plane
    call_ids = plane.integers("correlation_id").values[calls]
    launched = launched_by(call_ids, plane.start_ps[calls], correlation_id, start_ps, device.codes)
    launch = pick(calls, launched.call)
    known = host.function_of_event
    name = texts(_names)
    return DeviceEvents(
        name=name,
        device=device,
        stream=texts(lambda p: Strings(p.line_of, p.lines.name)),
        start_ps=start_ps,
        duration_ps=numbers(lambda p: p.duration_ps),
        correlation_id=correlation_id,
        launch=launch,
        early_ps=launched.early_ps[device.codes],
        function=Strings(pick(known.codes, launch), known.values),
        op=texts(_ops),
        producer=texts(lambda p: p.strings("from")),
        consumer=texts(lambda p: p.strings("to")),
        edge=texts(lambda p: p.strings("edge_name")),
        direction=_directions(name, Strings(pick(plane.name_of, launch), plane.names)),
        details=texts(lambda p: p.strings("memcpy_details")),
        hlo_op=texts(_hlo_ops),
        hlo_name=texts(lambda p: p.strings("name")),
        hlo_module=texts(lambda p: p.strings("hlo_module")),
    )


def _own_events(plane: Plane) -> Ints:
    derived = mask(map(is_derived_line, plane.lines.name, plane.lines.id.tolist()))
    chosen = np.flatnonzero(~derived[plane.line_of])
    for stat in filter(plane.has_stat, _MEMORY_RECORDS):
        chosen = chosen[~plane.strings(stat).present[chosen]]
    return chosen


def _is_tpu(plane: Plane) -> bool:
    return plane.name.startswith("/device:TPU")


def _names(plane: Plane) -> Strings:
    # XLA's TPU events have the whole instruction as name and a short display name.
    if not _is_tpu(plane):
        return Strings(plane.name_of, plane.names)
    pairs = zip(plane.names, plane.display_names, strict=True)
    return coded(plane.name_of, [display or name for name, display in pairs])


def _hlo_ops(plane: Plane) -> Strings:
    # On a TPU every event is an XLA op, but few have the stat.
    found = plane.strings("hlo_op")
    return filled(found, _names(plane)) if _is_tpu(plane) else found


def _ops(plane: Plane) -> Strings:
    """Read ops from `tf_op`, or else from `annotation` or `level 0` (TensorFlow 2.2 to 2.5)."""
    column = coded(np.full(len(plane), -1), ())
    for stat in filter(plane.has_stat, ("tf_op", "annotation", "level 0")):
        column = filled(column, mapped(plane.strings(stat), op_label))
    return column


def _directions(name: Strings, launch_name: Strings) -> Strings:
    is_copy_kernel = matches(name, _COPY_KERNEL.fullmatch)
    by_launch = mapped(launch_name, _direction)
    of_kernel = np.where(is_copy_kernel, by_launch.codes, -1)
    return filled(mapped(name, _direction), coded(of_kernel, by_launch.values))


def _direction(name: str) -> str | None:
    return next((d for pattern, d in _DIRECTIONS if pattern.fullmatch(name)), None)


class Launched(NamedTuple):
    """The launch of each kernel or transfer."""

    call: Ints  #: index of the call, -1 if unknown
    early_ps: Ints  #: how far the clock of each device is behind


def launched_by(
    call_id: Ints, call_ps: Ints, work_id: Ints, work_ps: Ints, device: Codes
) -> Launched:
    """Find the call that launched each kernel or transfer.

    The correlation ids of calls are ascending; those of work are 0 if not recorded. `call_ps` and
    `work_ps` are when each began, the latter on the clock of its `device`.
    """
    call = np.full(len(work_id), -1, np.int64)
    first = np.searchsorted(call_id, work_id)
    number = np.searchsorted(call_id, work_id, side="right") - first
    only = np.flatnonzero((number == 1) & (work_id != 0))
    late_ps = work_ps[only] - call_ps[first[only]]
    early_ps = _early_ps(late_ps, first[only], device[only], int(device.max(initial=-1)) + 1)
    is_near = late_ps + early_ps[device[only]] >= -_DRIFT_PS
    # If a call has other work with its id, much earlier work is from a call that is not recorded.
    followed = flags_at(first[only[is_near]], len(call_id))
    known = only[is_near | ~followed[first[only]]]
    call[known] = first[known]
    return Launched(call, early_ps)


def _early_ps(late_ps: Ints, call: Ints, device: Codes, devices: int) -> Ints:
    """Return how far each device's clock is behind, in picoseconds.

    Only the earliest work of each call counts, since later work waits for it. The most extreme 1%
    of calls are ignored, because work can have another call's id.
    """
    early_ps = np.zeros(devices, np.int64)
    none = np.iinfo(np.int64).max
    for number in np.unique(device).tolist():
        first_ps = np.full(int(call.max()) + 1, none)
        np.minimum.at(first_ps, call[device == number], late_ps[device == number])
        of_calls = first_ps[first_ps != none].clip(-none)  # the smallest int64 cannot be negated
        rank = min(max(1, int(len(of_calls) * _TOO_EARLY_SHARE)), len(of_calls) - 1)
        early_ps[number] = max(0, -int(np.partition(of_calls, rank)[rank]))
    return early_ps
