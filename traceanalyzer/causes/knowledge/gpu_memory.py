"""How much memory each GPU has, how much TensorFlow used, and what other processes held.

The sources are the allocator events of the trace and, in a capture, `get_memory_info`, TensorFlow's
log, and the driver.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from traceanalyzer.format import size_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traceanalyzer.capture_file.document import CaptureFile
    from traceanalyzer.run import Host

# `GPUProcessState::GetGPUAllocator` (gpu_process_state.cc) names them so.
_ALLOCATOR: Final = re.compile(r"GPU_(\d+)_bfc")
_DEVICE: Final = re.compile(r"/device:GPU:(\d+)$")
# `BaseGPUDeviceFactory::CreateGPUDevice` (gpu_device.cc); its MB are 2**20 bytes.
_CREATED: Final = re.compile(r"Created device \S*/device:GPU:(\d+) with (\d+) MB memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherProcess:
    """A process on a GPU that is not the program's: its name or "", and the memory it held."""

    name: str
    bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMemory:
    """The memory of one GPU of a host; None for unknown values."""

    #: TensorFlow's number of the GPU.
    number: int
    #: The most that TensorFlow had in use. It takes nearly all memory from the driver, unless
    #: memory growth is on.
    peak_bytes: int | None = None
    #: How much TensorFlow may use.
    limit_bytes: int | None = None
    #: How much the GPU has.
    total_bytes: int | None = None
    others: tuple[OtherProcess, ...] = ()

    @property
    def room_bytes(self) -> int | None:
        """The most that TensorFlow can use: its limit, or all that the GPU has."""
        return self.total_bytes if self.limit_bytes is None else self.limit_bytes

    def room_words(self, name: str) -> str:
        """Return how much memory TensorFlow can use on the GPU, which is called `name`."""
        if self.limit_bytes is None:
            return f"the {size_text(self.total_bytes or 0)} that {name} has"
        words = f"the {size_text(self.limit_bytes)} that TensorFlow may use on {name}"
        return f"{words}, which has {size_text(self.total_bytes)}" if self.total_bytes else words

    @property
    def others_bytes(self) -> int:
        """The known memory of other processes."""
        return sum(other.bytes or 0 for other in self.others)


def gpu_memory(host: Host) -> tuple[GpuMemory, ...]:
    """Return the known memory of each of TensorFlow's GPUs, by number."""
    capture_file = host.capture_file
    devices = (capture_file.devices or {}) if capture_file is not None else {}
    log = () if capture_file is None else capture_file.log
    created = [found for line in log if (found := _CREATED.search(line)) and int(found[2])]
    limits = {int(found[1]): int(found[2]) << 20 for found in created}
    limits |= _counts(devices.get("memory_limit"))
    peaks = _counts(devices.get("memory"), "peak")
    for use in host.memory:
        match = _ALLOCATOR.fullmatch(use.allocator)
        if match is not None and use.highest_bytes is not None:
            peaks[int(match[1])] = max(peaks.get(int(match[1]), 0), use.highest_bytes)
        if match is not None and use.limit_bytes is not None:
            limits[int(match[1])] = use.limit_bytes
    totals = {
        int(device[1]): int(size)
        for plane, stats in host.device_properties.items()
        if (device := _DEVICE.search(plane)) is not None
        and (size := stats.get("memory_size", "")).isdecimal()
        and int(size)
    }
    # The driver numbers GPUs by bus, CUDA the fastest first, and `CUDA_VISIBLE_DEVICES` chooses. So
    # for several GPUs, only a size that all of them have is used.
    seen = [] if capture_file is None else list(driver_gpus(capture_file))
    sizes = {_count(gpu.get("memory_total_bytes")) for gpu, _ in seen}
    known = {*peaks, *limits, *totals}
    if len(sizes) == 1 and (size_bytes := sizes.pop()):
        totals = dict.fromkeys(known or {0}, size_bytes) | totals
    others = {0: seen[0][1]} if len(seen) == 1 and known <= {0} else {}
    return tuple(
        GpuMemory(
            number=number,
            peak_bytes=peaks.get(number),
            limit_bytes=limits.get(number),
            total_bytes=totals.get(number),
            others=others.get(number, ()),
        )
        for number in sorted({*peaks, *limits, *totals})
    )


def driver_gpus(
    capture_file: CaptureFile,
) -> Iterator[tuple[Mapping[str, Any], tuple[OtherProcess, ...]]]:
    """Walk what the driver reported about each GPU, with the other processes on it."""
    for gpu in capture_file.gpus:
        processes = gpu.get("other_processes")
        yield (
            gpu,
            tuple(
                OtherProcess(name=str(p.get("name") or ""), bytes=_count(p.get("memory_bytes")))
                for p in (processes if isinstance(processes, list) else ())
                if isinstance(p, dict)
            ),
        )


def _counts(recorded: object, key: str = "") -> dict[int, int]:
    """Return the known bytes that the capture recorded about GPUs, by the GPU's number."""
    found = {}
    for device, value in (recorded if isinstance(recorded, dict) else {}).items():
        match = _DEVICE.search(device)
        count = _count(value.get(key) if key and isinstance(value, dict) else value)
        if match is not None and count:
            found[int(match[1])] = count
    return found


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
