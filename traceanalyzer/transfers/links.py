"""What the link of a copy could carry: by what is known of the hardware, else by the best seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traceanalyzer.capture_file.document import Json

__all__ = ["Link", "LinkSource", "pcie_bytes_per_s", "told_links"]

# PCI Express; the device's own memory; the fastest large copy of that direction in the trace.
LinkSource: TypeAlias = Literal["pcie", "memory", "seen"]

# Bytes a second that one lane carries one way, after line coding: transfers a second times 8b/10b
# (generations 1 and 2), 128b/130b (3 to 5), 242/256 (6, in flits).
_LANE_BYTES_PER_S: Final = {
    1: 2.5e9 * 8 / 10 / 8,
    2: 5e9 * 8 / 10 / 8,
    3: 8e9 * 128 / 130 / 8,
    4: 16e9 * 128 / 130 / 8,
    5: 32e9 * 128 / 130 / 8,
    6: 64e9 * 242 / 256 / 8,
}
_LANES: Final = 32  # the widest link there is


@dataclass(frozen=True, kw_only=True)
class Link:
    """What copies of one direction could reach on a device.

    Attributes:
        bytes_per_s: Bytes a second, one way. Where it is `seen`, a lower bound of it.
        source: Whose figure that is.
    """

    bytes_per_s: float
    source: LinkSource


def pcie_bytes_per_s(generation: int, width: int) -> float | None:
    """Return what a PCI Express link carries one way; None for one that there is not."""
    lane = _LANE_BYTES_PER_S.get(generation)
    return None if lane is None or not 0 < width <= _LANES else lane * width


def told_links(
    device_properties: Mapping[str, Mapping[str, str]],
    gpus: Sequence[Mapping[str, Json]] = (),
) -> dict[tuple[str, str], Link]:
    """Return the links that the hardware's facts tell of, by device plane and direction.

    Args:
        device_properties: The properties that each device's plane states (cupti_collector.cc,
            GetDeviceCapabilities; `memory_bandwidth` in bytes a second).
        gpus: What NVML says of the GPUs. Which of them is TensorFlow's first depends on more than
            their order there, so what they say counts where it is the same for all.

    Returns:
        Between host and device what PCI Express carries; within a device half of what its memory
        does, for a copy reads and writes.
    """
    links: dict[tuple[str, str], Link] = {}
    bus = _bus_bytes_per_s(gpus)
    for device, properties in device_properties.items():
        if bus is not None:
            for direction in ("h2d", "d2h"):
                links[device, direction] = Link(bytes_per_s=bus, source="pcie")
        bandwidth = properties.get("memory_bandwidth", "")
        if bandwidth.isascii() and bandwidth.isdecimal() and int(bandwidth):
            links[device, "d2d"] = Link(bytes_per_s=int(bandwidth) / 2, source="memory")
    return links


def _bus_bytes_per_s(gpus: Sequence[Mapping[str, Json]]) -> float | None:
    told = {(gpu.get("pcie_generation"), gpu.get("pcie_width")) for gpu in gpus}
    if len(told) != 1:
        return None
    generation, width = told.pop()
    if not isinstance(generation, int) or not isinstance(width, int):
        return None
    return pcie_bytes_per_s(generation, width)
