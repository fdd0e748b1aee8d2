"""The figures of a trace by the shortest way from protobuf's own parser: an oracle for the tables.

Plain Python on whole numbers, which do not overflow. It shares no code with the package.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

__all__ = ["Event", "Figures", "figures_of"]

_DERIVED: Final = re.compile(
    r"Steps|XLA (Modules|Ops|TraceMe)|TensorFlow (Ops|Name Scope)|Framework (Ops|Name Scope)"
    r"|Source [Cc]ode|Launch Stats.*"
)
_COPY: Final = re.compile(r"Memcpy([HDP])(?:2|to)([HDP])|Copy(Host|Device)To(Host|Device)")
_ROCM_COPY: Final = re.compile(r"__amd_rocclr_copyBuffer")
_HOST: Final = "/host:CPU"


class Event(NamedTuple):
    """An event; times in picoseconds on the file's own clock."""

    line: int
    name: str
    start: int
    end: int
    stats: dict[str, Any]


class Figures(NamedTuple):
    """What a trace holds.

    Attributes:
        kernels: Number and total duration of kernels, by device.
        transfers: Number, total duration and bytes of transfers, by device and direction.
        busy: How long each device that ran kernels ran a kernel or a transfer.
        steps: Start, from the first event of all, and duration of each marked step.
        memory: The most that each allocator had in use.
    """

    kernels: dict[str, tuple[int, int]]
    transfers: dict[tuple[str, str], tuple[int, int, int]]
    busy: dict[str, int]
    steps: list[tuple[int, int]]
    memory: dict[str, int]


def figures_of(space: Any) -> Figures:  # noqa: ANN401  # protobuf's message
    """Read the figures off an XSpace message."""
    host = [e for plane in space.planes if plane.name == _HOST for e in _events(plane)]
    devices = {p.name: list(_events(p)) for p in space.planes if p.name.startswith("/device:GPU:")}
    launched_by = {e.stats["correlation_id"]: e.name for e in host if "correlation_id" in e.stats}
    kernels: dict[str, tuple[int, int]] = {}
    transfers: dict[tuple[str, str], tuple[int, int, int]] = {}
    busy = {}
    for device, events in devices.items():
        for event in events:
            took = event.end - event.start
            way = _direction(event, launched_by)
            if way is None:
                number, total = kernels.get(device, (0, 0))
                kernels[device] = number + 1, total + took
            else:
                size = re.search(r"size:(\d+)", str(event.stats.get("memcpy_details", "")))
                number, total, size_bytes = transfers.get((device, way), (0, 0, 0))
                size_bytes += int(size[1]) if size else 0
                transfers[device, way] = number + 1, total + took, size_bytes
        if device in kernels:
            busy[device] = _union((e.start, e.end) for e in events)
    first = min(e.start for e in [*host, *(e for events in devices.values() for e in events)])
    return Figures(
        kernels, transfers, busy, [(a - first, b - a) for a, b in _steps(space, host)], _peaks(host)
    )


def _events(plane: Any, lines: str | None = None) -> Iterator[Event]:  # noqa: ANN401  # as above
    """Yield the events of a plane, of derived lines only those named `lines`."""
    names = {key: entry.name for key, entry in plane.stat_metadata.items()}
    own = {
        key: (entry.name, {names[s.metadata_id]: _value(s, names) for s in entry.stats})
        for key, entry in plane.event_metadata.items()
    }
    for number, line in enumerate(plane.lines):
        if line.name != lines if lines else _DERIVED.fullmatch(line.name):
            continue
        for event in line.events:
            name, inherited = own[event.metadata_id]
            start = line.timestamp_ns * 1000 + event.offset_ps
            stats = {names[s.metadata_id]: _value(s, names) for s in event.stats}
            yield Event(number, name, start, start + event.duration_ps, inherited | stats)


def _value(stat: Any, names: dict[int, str]) -> Any:  # noqa: ANN401  # as above
    kind = stat.WhichOneof("value")
    return names[stat.ref_value] if kind == "ref_value" else getattr(stat, kind)


def _direction(event: Event, launched_by: dict[Any, str]) -> str | None:
    name = event.name
    if _ROCM_COPY.match(name):
        name = launched_by.get(event.stats.get("correlation_id"), "").replace("hipM", "M")
        name = name.removesuffix("Async")
    found = _COPY.fullmatch(name)
    if found is None:
        return None
    return "2".join(end[0].lower() for end in found.groups() if end)


def _union(times: Iterable[tuple[int, int]]) -> int:
    total, until = 0, None
    for start, end in sorted(times):
        begin = start if until is None else max(start, until)
        total += max(0, end - begin)
        until = end if until is None else max(until, end)
    return total


def _steps(space: Any, host: list[Event]) -> list[tuple[int, int]]:  # noqa: ANN401  # as above
    """Return marked steps: markers of the host, else the lines that a profiler added to devices."""
    marked = sorted((e.start, e.end) for e in host if "step_num" in e.stats)
    if marked:
        return marked
    lines = [e for plane in space.planes for e in _events(plane, "Steps")]
    found: list[tuple[int, int]] = []
    for start, end in sorted((e.start, e.end) for e in lines):
        if found and start < found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


def _peaks(host: list[Event]) -> dict[str, int]:
    peaks: Counter[str] = Counter()
    for event in host:
        if event.name in {"MemoryAllocation", "MemoryDeallocation"}:
            used = int(event.stats["bytes_allocated"]) + int(event.stats.get("bytes_reserved", 0))
            name = event.stats["allocator_name"]
            peaks[name] = max(peaks[name], used)
    return dict(peaks)
