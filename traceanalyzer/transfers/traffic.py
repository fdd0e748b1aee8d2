"""How much of each transfer compute hid, and what its link could carry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from traceanalyzer.timeline.intervals import inside_ps, union
from traceanalyzer.transfers.ends import codes_of
from traceanalyzer.units import PS_PER_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from traceanalyzer.capture_file.document import Json
    from traceanalyzer.model.figures import LinkSource
    from traceanalyzer.timeline.intervals import Intervals

# From this size on, setting a transfer off matters little: a tenth of its time at 10 GB/s.
_LARGE_BYTES: Final = 128 * 1024
_TOLERANCE: Final = 1.05  # clocks of devices tick in steps
# Bytes per second that one lane carries one way, after line coding: transfers per second times
# 8b/10b (generations 1 and 2), 128b/130b (3 to 5), 242/256 (6, in flits).
_LANE_BYTES_PER_S: Final = {
    1: 2.5e9 * 8 / 10 / 8,
    2: 5e9 * 8 / 10 / 8,
    3: 8e9 * 128 / 130 / 8,
    4: 16e9 * 128 / 130 / 8,
    5: 32e9 * 128 / 130 / 8,
    6: 64e9 * 242 / 256 / 8,
}
_MAX_LANES: Final = 32


@dataclass(frozen=True)
class Link:
    """What transfers of one direction could reach on a device.

    The source of the rate is PCI Express, the device's own memory, or the fastest large transfer
    in that direction in the trace (`seen`: then it is a lower bound).
    """

    bytes_per_s: float  #: one way
    source: LinkSource


@dataclass(frozen=True, eq=False)
class Traffic:
    """What is known of each row of the transfer table beside its size and time."""

    hidden_ps: pd.arrays.IntegerArray  #: of its time, while a kernel of its device ran
    link: NDArray[np.int64]  #: index into `links`, -1 for unknown
    links: tuple[Link, ...]
    kernels: Mapping[tuple[str, str], Intervals]  #: when a kernel ran, by host and device


def traffic(
    transfers: pd.DataFrame,
    kernels: pd.DataFrame,
    links: Mapping[tuple[str, str, str], Link],
) -> Traffic:
    """Measure transfers.

    Args:
        transfers: The transfer table.
        kernels: The kernel table.
        links: The known links, by host, device and direction. One that a transfer outran is not
            the link it took. If none is known, the fastest large transfer in that direction counts.
    """
    fastest = _fastest(transfers)
    columns = [transfers[c] for c in ("host", "device", "direction")]
    texts = [[*map(str, column.cat.categories), ""] for column in columns]
    shape = tuple(map(len, texts))
    codes = [codes_of(c) % n for c, n in zip(columns, shape, strict=True)]  # null is the last
    distinct, inverse = np.unique(np.ravel_multi_index(tuple(codes), shape), return_inverse=True)
    numbers: dict[Link, int] = {}
    chosen = []
    for place in zip(*(c.tolist() for c in np.unravel_index(distinct, shape)), strict=True):
        host, device, direction = (names[k] for names, k in zip(texts, place, strict=True))
        link = _link(links.get((host, device, direction)), fastest.get(direction))
        chosen.append(-1 if link is None else numbers.setdefault(link, len(numbers)))
    rows = rows_of_devices(transfers)
    times = {device: _kernel_times(kernels, *device) for device in rows}
    return Traffic(
        hidden_ps=_hidden_ps(transfers, rows, times),
        link=np.array(chosen, np.int64)[inverse.reshape(-1)],
        links=tuple(numbers),
        kernels=times,
    )


def _link(known: Link | None, fastest: float | None) -> Link | None:
    if known is not None and (fastest is None or fastest <= known.bytes_per_s * _TOLERANCE):
        return known
    return None if fastest is None else Link(fastest, "seen")


def _fastest(transfers: pd.DataFrame) -> dict[str, float]:
    """Return the highest rate of the large transfers of each direction, bytes per second."""
    size = transfers["bytes"].fillna(0).to_numpy(np.int64)
    took = transfers["duration_ps"].fillna(0).to_numpy(np.int64)
    large = np.flatnonzero((size >= _LARGE_BYTES) & (took > 0))
    rate = pd.Series(size[large] / took[large] * PS_PER_S)
    direction = transfers["direction"].astype(object).to_numpy()[large]
    return {str(name): float(most) for name, most in rate.groupby(direction).max().items()}


def _hidden_ps(
    transfers: pd.DataFrame,
    rows: Mapping[tuple[str, str], NDArray[np.int64]],
    kernels: Mapping[tuple[str, str], Intervals],
) -> pd.arrays.IntegerArray:
    """Return how much of each transfer's time a kernel of its device ran, null where unknown."""
    took = transfers["duration_ps"]
    start = transfers["start_ps"].to_numpy(np.int64)
    end = start + took.fillna(0).to_numpy(np.int64)
    hidden = np.zeros(len(transfers), np.int64)
    is_known = np.zeros(len(transfers), np.bool_)
    for device, chosen in rows.items():
        hidden[chosen] = inside_ps(kernels[device], start[chosen], end[chosen])
        is_known[chosen] = True
    is_known &= took.notna().to_numpy()
    return pd.arrays.IntegerArray(np.where(is_known, hidden, 0), ~is_known)


def _kernel_times(kernels: pd.DataFrame, host: str, device: str) -> Intervals:
    chosen = ((kernels["host"] == host) & (kernels["device"] == device)).to_numpy()
    return union(
        kernels["start_ps"].to_numpy(np.int64)[chosen],
        kernels["duration_ps"].to_numpy(np.int64)[chosen],
    )


def rows_of_devices(transfers: pd.DataFrame) -> dict[tuple[str, str], NDArray[np.int64]]:
    """Return the rows of each known host and device."""
    host, device = (codes_of(transfers[c]) for c in ("host", "device"))
    hosts, devices = (transfers[c].cat.categories for c in ("host", "device"))
    packed = np.where((host >= 0) & (device >= 0), host * len(devices) + device, -1)
    return {
        (str(hosts[p // len(devices)]), str(devices[p % len(devices)])): np.flatnonzero(packed == p)
        for p in np.unique(packed).tolist()
        if p >= 0
    }


def hardware_links(
    device_properties: Mapping[str, Mapping[str, str]], gpus: Sequence[Mapping[str, Json]]
) -> dict[tuple[str, str], Link]:
    """Return the links that the hardware's properties define, by device plane and direction.

    Between host and device, what PCI Express carries; within a device, half of its memory
    bandwidth, since a copy reads and writes.

    Args:
        device_properties: The properties that each device's plane states (cupti_collector.cc,
            GetDeviceCapabilities; `memory_bandwidth` in bytes per second).
        gpus: What NVML says of the GPUs. Their order need not be TensorFlow's, so the link counts
            only if it is the same for all.
    """
    links: dict[tuple[str, str], Link] = {}
    buses = {(gpu.get("pcie_generation"), gpu.get("pcie_width")) for gpu in gpus}
    bus = pcie_bytes_per_s(*buses.pop()) if len(buses) == 1 else None
    for device, properties in device_properties.items():
        if bus is not None:
            links |= {(device, direction): Link(bus, "pcie") for direction in ("h2d", "d2h")}
        bandwidth = properties.get("memory_bandwidth", "")
        if bandwidth.isascii() and bandwidth.isdecimal() and int(bandwidth):
            links[device, "d2d"] = Link(int(bandwidth) / 2, "memory")
    return links


def pcie_bytes_per_s(generation: Json, width: Json) -> float | None:
    """Return what a PCI Express link carries one way, None if there is no such link."""
    if not isinstance(generation, int) or not isinstance(width, int):
        return None
    lane = _LANE_BYTES_PER_S.get(generation)
    return None if lane is None or not 0 < width <= _MAX_LANES else lane * width
