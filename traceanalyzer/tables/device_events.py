"""What ran on the devices of one host: kernels and copies, each with the op it was launched for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from traceanalyzer.tables.text_columns import concatenate, constant, empty, filled, mapped
from traceanalyzer.tables.vocabulary import GPU_PLANE, is_derived_line, op_and_type
from traceanalyzer.trace.columns import Strings

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from traceanalyzer.tables.host_ops import HostOps
    from traceanalyzer.trace.columns import Plane, Trace

__all__ = ["CopyDetails", "DeviceEvents", "device_events", "device_planes"]

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


def device_planes(trace: Trace) -> list[Plane]:
    """Return the planes of GPUs and TPUs, with or without events."""
    return [p for p in trace.planes if GPU_PLANE.fullmatch(p.name)]


def device_events(trace: Trace, host: HostOps | None) -> DeviceEvents:
    """Collect the events of a host's device planes, derived lines left out."""
    planes = device_planes(trace)
    rows = [_own_events(plane) for plane in planes]
    launches = _Launches(host)
    correlation = _gather_integers(planes, rows, "correlation_id")
    launch = launches.find(correlation)
    name = _gather(planes, rows, _names)
    details = _gather(planes, rows, lambda p: p.strings("memcpy_details"))
    return DeviceEvents(
        name=name,
        device=_gather(planes, rows, lambda p: constant(p.name, len(p))),
        stream=_gather(planes, rows, _line_names),
        start_ps=_concatenate([p.start_ps[r] for p, r in zip(planes, rows, strict=True)]),
        duration_ps=_concatenate([p.duration_ps[r] for p, r in zip(planes, rows, strict=True)]),
        correlation_id=correlation,
        launch=launch,
        op=_gather(planes, rows, _ops),
        producer=_gather(planes, rows, lambda p: p.strings("from")),
        consumer=_gather(planes, rows, lambda p: p.strings("to")),
        edge=_gather(planes, rows, lambda p: p.strings("edge_name")),
        direction=_directions(name, launches.names(launch)),
        details=details.codes,
        copy_details=tuple(_parse_details(text) for text in details.values),
        hlo_op=_gather(planes, rows, _hlo_ops),
        hlo_name=_gather(planes, rows, lambda p: p.strings("name")),
        hlo_module=_gather(planes, rows, lambda p: p.strings("hlo_module")),
    )


class _Launches:
    """The host's launch calls by correlation id."""

    def __init__(self, host: HostOps | None) -> None:
        self._plane = host.plane if host else None
        self._ids = self._events = np.empty(0, np.int64)
        if host:
            column = host.plane.integers("correlation_id")
            events = np.flatnonzero(column.present & (column.values != 0))
            # The call that launches comes before one that merely waits with the same id.
            self._ids, first = np.unique(column.values[events], return_index=True)
            self._events = events[first]

    def find(self, correlation_id: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the launching event of each id, -1 where there is none."""
        if not len(self._ids):
            return np.full(len(correlation_id), -1, np.int64)
        slot = np.searchsorted(self._ids, correlation_id).clip(max=len(self._ids) - 1)
        return np.where(self._ids[slot] == correlation_id, self._events[slot], -1)

    def names(self, launch: NDArray[np.int64]) -> Strings:
        """Return the names of launching events."""
        if self._plane is None or not len(launch):
            return Strings(np.full(len(launch), -1, np.int32), ())
        codes = np.append(self._plane.name_of, np.int32(-1))[launch]
        return Strings(codes, self._plane.names)


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
