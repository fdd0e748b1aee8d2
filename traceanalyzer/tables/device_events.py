"""What ran on the devices of one host: kernels and copies, each with the op it was launched for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from traceanalyzer.tables.launches import launched_by
from traceanalyzer.tables.text_columns import concatenate, constant, empty, filled, mapped
from traceanalyzer.tables.vocabulary import GPU_PLANE, is_derived_line, op_and_type
from traceanalyzer.trace.columns import Strings

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
# On ROCm a copy may show as a kernel; its launch says which way it went (seen in the corpus).
_COPY_KERNEL: Final = re.compile(r"__amd_rocclr_copyBuffer\w*(\.kd)?")


_SIZE_DIGITS: Final = 15


class CopyDetails(NamedTuple):
    """What the stat `memcpy_details` says; None where it does not."""

    bytes: int | None = None
    memory: str = "unknown"
    is_async: bool | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class DeviceEvents:
    """Events of the device planes of one host; arrays have one entry an event.

    Attributes:
        name: Name of the kernel or copy.
        device: Name of the plane, `/device:GPU:0`.
        stream: Name of the line.
        start_ps: int64.
        duration_ps: int64.
        correlation_id: 0 where there is none, int64.
        launch: Event of the host plane that launched it, -1 where unknown; int64.
        launch_is_sure: Whether no other event can have been it: correlation ids come again.
        early_ps: By how much the clock of its device is early, int64.
        op: Op it was launched for, `name:Type`, or none.
        producer: Stat `from` of a copy, or none.
        consumer: Stat `to` of a copy, or none.
        edge: Stat `edge_name` of a copy, or none.
        direction: `h2d`, `d2h`, `d2d`, `p2p`, `h2h` for a copy; none for a kernel.
        details: Index into `copy_details`, -1 for none; int32.
        copy_details: Distinct details of copies.
        hlo_op: XLA op, or none.
        hlo_name: Name of the op in the program that XLA compiled, or none.
        hlo_module: XLA module, or none.
    """

    name: Strings
    device: Strings
    stream: Strings
    start_ps: NDArray[np.int64]
    duration_ps: NDArray[np.int64]
    correlation_id: NDArray[np.int64]
    launch: NDArray[np.int64]
    launch_is_sure: NDArray[np.bool_]
    early_ps: NDArray[np.int64]
    op: Strings
    producer: Strings
    consumer: Strings
    edge: Strings
    direction: Strings
    details: NDArray[np.int32]
    copy_details: tuple[CopyDetails, ...]
    hlo_op: Strings
    hlo_name: Strings
    hlo_module: Strings

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self.start_ps)

    @property
    def sure_launch(self) -> NDArray[np.int64]:
        """The event that launched each, -1 also where it may have been another."""
        return np.where(self.launch_is_sure, self.launch, -1)


def device_planes(trace: Trace) -> list[Plane]:
    """Return the planes of GPUs and TPUs, with or without events."""
    return [p for p in trace.planes if GPU_PLANE.fullmatch(p.name)]


def device_events(trace: Trace, host: HostOps | None) -> DeviceEvents:
    """Collect the events of a host's device planes, derived lines left out."""
    planes = device_planes(trace)
    rows = [_own_events(plane) for plane in planes]
    correlation = _gather_integers(planes, rows, "correlation_id")
    start_ps = _concatenate([p.start_ps[r] for p, r in zip(planes, rows, strict=True)])
    device = _gather(planes, rows, lambda p: constant(p.name, len(p)))
    launch, is_sure, early_ps = _launches(host, correlation, start_ps, device.codes)
    name = _gather(planes, rows, _names)
    details = _gather(planes, rows, lambda p: p.strings("memcpy_details"))
    return DeviceEvents(
        name=name,
        device=device,
        stream=_gather(planes, rows, _line_names),
        start_ps=start_ps,
        duration_ps=_concatenate([p.duration_ps[r] for p, r in zip(planes, rows, strict=True)]),
        correlation_id=correlation,
        launch=launch,
        launch_is_sure=is_sure,
        early_ps=early_ps,
        op=_gather(planes, rows, _ops),
        producer=_gather(planes, rows, lambda p: p.strings("from")),
        consumer=_gather(planes, rows, lambda p: p.strings("to")),
        edge=_gather(planes, rows, lambda p: p.strings("edge_name")),
        direction=_directions(name, _names_of_launches(host, launch)),
        details=details.codes,
        copy_details=tuple(_parse_details(text) for text in details.values),
        hlo_op=_gather(planes, rows, _hlo_ops),
        hlo_name=_gather(planes, rows, lambda p: p.strings("name")),
        hlo_module=_gather(planes, rows, lambda p: p.strings("hlo_module")),
    )


def _launches(
    host: HostOps | None,
    correlation_id: NDArray[np.int64],
    start_ps: NDArray[np.int64],
    device: NDArray[np.int32],
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
    """Return what launched each event, whether that is sure, and how early its clock is."""
    if host is None:
        n = len(start_ps)
        return np.full(n, -1, np.int64), np.zeros(n, np.bool_), np.zeros(n, np.int64)
    plane = host.plane
    calls = host.launches
    ids = plane.integers("correlation_id").values[calls]
    found = launched_by(ids, plane.start_ps[calls], correlation_id, start_ps, device)
    return np.append(calls, -1)[found.call], found.is_sure, found.early_ps[device]


def _names_of_launches(host: HostOps | None, launch: NDArray[np.int64]) -> Strings:
    if host is None or not len(launch):
        return empty(len(launch))
    codes = np.append(host.plane.name_of, np.int32(-1))[launch]
    return Strings(codes, host.plane.names)


def _own_events(plane: Plane) -> NDArray[np.int64]:
    """Return what ran on the device: no derived lines, and no record of how memory was held."""
    chosen = _on_own_lines(plane)
    for stat in _MEMORY_RECORDS:
        if plane.has_stat(stat):
            chosen = chosen[~plane.strings(stat).present[chosen]]
    return chosen


def _on_own_lines(plane: Plane) -> NDArray[np.int64]:
    lines = plane.lines
    derived = [
        is_derived_line(name, line_id)
        for name, line_id in zip(lines.name, lines.id.tolist(), strict=True)
    ]
    if not any(derived):
        return np.arange(len(plane), dtype=np.int64)
    return np.flatnonzero(~np.array(derived, np.bool_)[plane.line_of])


def _names(plane: Plane) -> Strings:
    # XLA's TPU events carry the whole instruction as name, and its short name for display.
    tpu = plane.name.startswith("/device:TPU")
    values = [
        display if tpu and display else name
        for name, display in zip(plane.names, plane.display_names, strict=True)
    ]
    return Strings(plane.name_of, tuple(values))


def _line_names(plane: Plane) -> Strings:
    return Strings(plane.line_of, plane.lines.name)


def _hlo_ops(plane: Plane) -> Strings:
    # On a TPU every event is an XLA op, and few of them say so.
    found = plane.strings("hlo_op")
    return filled(found, _names(plane)) if plane.name.startswith("/device:TPU") else found


def _ops(plane: Plane) -> Strings:
    """Read the op from `tf_op`, else from `annotation` or `level 0` (TensorFlow 2.2 to 2.5)."""
    column = empty(len(plane))
    for stat in ("tf_op", "annotation", "level 0"):
        if plane.has_stat(stat):
            column = filled(column, mapped(plane.strings(stat), _normalised_op))
    return column


def _normalised_op(text: str) -> str | None:
    parsed = op_and_type(text)
    return ":".join(parsed) if parsed else None


def _gather(
    planes: list[Plane], rows: list[NDArray[np.int64]], column: Callable[[Plane], Strings]
) -> Strings:
    return concatenate([column(p).take(r) for p, r in zip(planes, rows, strict=True)])


def _gather_integers(
    planes: list[Plane], rows: list[NDArray[np.int64]], stat: str
) -> NDArray[np.int64]:
    return _concatenate([p.integers(stat).values[r] for p, r in zip(planes, rows, strict=True)])


def _concatenate(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([np.empty(0, np.int64), *parts])


def _directions(name: Strings, launch_name: Strings) -> Strings:
    own = mapped(name, _direction)
    copy_kernels = mapped(name, lambda n: n if _COPY_KERNEL.fullmatch(n) else None)
    if not copy_kernels.present.any():
        return own
    by_launch = mapped(launch_name, _direction)
    masked = Strings(
        np.where(copy_kernels.present, by_launch.codes, -1).astype(np.int32), by_launch.values
    )
    return filled(own, masked)


def _direction(name: str) -> str | None:
    return next((d for pattern, d in _DIRECTIONS if pattern.fullmatch(name)), None)


def _parse_details(text: str) -> CopyDetails:
    """Parse `[kind_src:pinned kind_dst:device ]size:4096 dest:0 async:1`."""
    pairs = dict(part.split(":", 1) for part in text.split() if ":" in part)
    size = pairs.get("size", "")
    kinds = {pairs.get("kind_src", ""), pairs.get("kind_dst", "")}
    memory = next((m for m in ("pageable", "pinned") if m in kinds), "unknown")
    is_async = {"0": False, "1": True}.get(pairs.get("async", ""))
    # A petabyte and more is no size; many of them would not sum.
    is_size = size.isascii() and size.isdigit() and len(size) <= _SIZE_DIGITS
    return CopyDetails(int(size) if is_size else None, memory, is_async)
