"""Measures a run's transfers: sources, targets, links, steps, and overlap with kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traceanalyzer.capture_file.document import CaptureFile, Json
from traceanalyzer.model.figures import LinkSource
from traceanalyzer.tables.joined import Joined
from traceanalyzer.tables.vocabulary import placement_of_device
from traceanalyzer.timeline.intervals import Intervals, inside_ps, union
from traceanalyzer.units import PS_PER_S

_HOST: Final = "host"
_UNSEEN_DEVICE: Final = "device"  # the device end of a transfer that only the host recorded
_PEER: Final = "another device"  # target of a transfer between devices, which the source records
# From this size on, the fixed cost of a transfer is at most a tenth of its time at 10 GB/s.
_LARGE_BYTES: Final = 128 * 1024
_TOLERANCE: Final = 1.05  # clocks of devices tick in steps
# Bytes per second of one lane in one direction, after line coding: transfers per second times
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


@dataclass(frozen=True, eq=False, kw_only=True)
class HostFacts:
    """Facts about a host that are not in its tables."""

    name: str
    device_properties: Mapping[str, Mapping[str, str]]  #: by device plane
    capture_file: CaptureFile | None
    joined: Joined | None  #: its op table, joined with the capture file


@dataclass(frozen=True)
class LinkRate:
    """The maximum rate of a device's transfers in one direction.

    This is the bandwidth of PCI Express or of the device's memory. If that is unknown, it is the
    rate of the fastest large transfer in that direction (`seen`), which is a lower bound.
    """

    bytes_per_s: float  #: one way
    source: LinkSource


@dataclass(frozen=True, eq=False, kw_only=True)
class Traffic:
    """The transfers of a run, with the rates of their links and the busy times of devices."""

    #: The transfer table, with further columns. `source`, `target`: an op id, `name:X` for an op
    #: known only by name, otherwise the memory. `source_memory`, `target_memory`: `host`, `gpu:0`.
    #: `hidden_ps`: the time in which a kernel of its device ran, null if unknown. `link`: index
    #: into `links`, -1 if unknown. `step`: row of the step table, -1 for none.
    table: pd.DataFrame
    links: tuple[LinkRate, ...]
    busy: Mapping[tuple[str, str], Intervals]  #: compute and copy time by host and device
    steps_of_host: Mapping[str, int]  #: how many steps each host has

    def per_step(self, transfers: pd.DataFrame) -> NDArray[np.int64]:
        """Return the number of transfers in each step of their hosts, or [] if there are no steps.

        Here, a step lasts until the next one begins, since programs read values after a step.
        """
        hosts = transfers["host"].dropna().unique()
        steps = sum(self.steps_of_host.get(host, 0) for host in hosts)
        counts = transfers["step"][transfers["step"] >= 0].value_counts().to_numpy(np.int64)
        return np.pad(counts, (0, steps - len(counts)))


def measure(
    transfers: pd.DataFrame,
    kernels: pd.DataFrame,
    steps: pd.DataFrame,
    hosts: Sequence[HostFacts] = (),
) -> Traffic:
    """Measure the transfers of a run.

    If a link's rate is unknown or below that of a transfer, the rate of the fastest large transfer
    in that direction is used.
    """
    start = transfers["start_ps"].to_numpy(np.int64)
    took = transfers["duration_ps"].fillna(0).to_numpy(np.int64)
    fastest = _fastest(transfers, took)
    known = {
        (host.name, *at): link
        for host in hosts
        for at, link in hardware_links(
            host.device_properties, host.capture_file.gpus if host.capture_file else ()
        ).items()
    }
    links: dict[LinkRate, int] = {}
    link = np.full(len(transfers), -1, np.int64)
    ends = ["host", "device", "direction"]
    for _, part in transfers[ends].groupby(ends, observed=True, dropna=False):
        host, device, direction = part.iloc[0]
        chosen, seen = known.get((host, device, direction)), fastest.get(direction)
        if seen is not None and (chosen is None or seen > chosen.bytes_per_s * _TOLERANCE):
            chosen = LinkRate(seen, "seen")
        if chosen is not None:
            link[part.index] = links.setdefault(chosen, len(links))
    busy: dict[tuple[str, str], Intervals] = {}
    hidden = np.zeros(len(transfers), np.int64)
    is_known = np.zeros(len(transfers), np.bool_)
    of_devices: dict[Any, Any] = transfers.groupby(["host", "device"], observed=True).indices
    for (host, device), rows in of_devices.items():
        ran = kernels[(kernels["host"] == host) & (kernels["device"] == device)]
        ran_ps, lasted_ps = (ran[c].to_numpy(np.int64) for c in ("start_ps", "duration_ps"))
        computing = union(ran_ps, lasted_ps)
        hidden[rows] = inside_ps(computing, start[rows], start[rows] + took[rows])
        is_known[rows] = True
        busy[host, device] = union(
            np.concatenate([ran_ps, start[rows]]), np.concatenate([lasted_ps, took[rows]])
        )
    is_known &= transfers["duration_ps"].notna().to_numpy()
    return Traffic(
        table=transfers.assign(
            **_ends(transfers),
            hidden_ps=pd.arrays.IntegerArray(np.where(is_known, hidden, 0), ~is_known),
            link=link,
            step=_steps(transfers, steps),
        ),
        links=tuple(links),
        busy=busy,
        steps_of_host={str(host): n for host, n in steps["host"].value_counts().items()},
    )


def _ends(transfers: pd.DataFrame) -> dict[str, pd.Series[Any]]:
    device, direction = transfers["device"], transfers["direction"]
    names = [*map(placement_of_device, device.cat.categories), _UNSEEN_DEVICE]
    own = np.array(names, object)[device.cat.codes]
    from_host = direction.isin(("h2d", "h2h"))
    to_host = direction.isin(("d2h", "h2h"))
    ends: dict[str, Any] = {
        "source_memory": np.where(from_host, _HOST, own),
        "target_memory": np.select([to_host, direction == "p2p"], [_HOST, _PEER], own),
    }
    for end, op in (("source", "producer"), ("target", "consumer")):
        name = transfers[f"{op}_name"].cat.rename_categories("name:{}".format).astype(object)
        op_id = transfers[op].astype(object)
        ends[end] = op_id.where(op_id.notna(), name.where(name.notna(), ends[f"{end}_memory"]))
    return {name: pd.Series(column, transfers.index, "category") for name, column in ends.items()}


def _steps(transfers: pd.DataFrame, steps: pd.DataFrame) -> NDArray[np.int64]:
    """Return the step in which each transfer was requested or, if unknown, began."""
    when = transfers["launch_ps"].fillna(transfers["start_ps"]).to_numpy(np.int64)
    step = np.full(len(transfers), -1, np.int64)
    for host, of_host in steps.groupby("host", observed=True):
        ordered = of_host.sort_values("start_ps", kind="stable")
        start, took = (ordered[c].to_numpy(np.int64) for c in ("start_ps", "duration_ps"))
        own = np.flatnonzero(transfers["host"] == host)
        place = np.searchsorted(start, when[own], side="right") - 1
        # The last step has no successor: assume that it lasts as long as the median step.
        period = int(np.median(np.diff(start))) if len(start) > 1 else 0
        is_over = when[own] > max(int((start + took).max()), int(start[-1]) + period)
        rows = ordered.index.to_numpy()
        step[own] = np.where((place < 0) | is_over, -1, rows[place])
    return step


def _fastest(transfers: pd.DataFrame, took_ps: NDArray[np.int64]) -> dict[str, float]:
    """Return the highest rate of large transfers by direction, in bytes per second."""
    size = transfers["bytes"].fillna(0).to_numpy(np.int64)
    large = (size >= _LARGE_BYTES) & (took_ps > 0)
    rate = pd.Series(size[large] / took_ps[large] * PS_PER_S)
    direction = transfers["direction"].astype(object).to_numpy()[large]
    return {str(name): most for name, most in rate.groupby(direction).max().items()}


def hardware_links(
    device_properties: Mapping[str, Mapping[str, str]], gpus: Sequence[Mapping[str, Json]]
) -> dict[tuple[str, str], LinkRate]:
    """Return the hardware's links by device plane and direction.

    A link's rate is the PCI Express bandwidth between host and device, and half of the memory
    bandwidth within a device, since a copy reads and writes. `device_properties` are those in each
    device's plane (cupti_collector.cc, GetDeviceCapabilities). The order of `gpus`, NVML's records,
    can differ from TensorFlow's: the bandwidth is known only if all GPUs have the same link.
    """
    links: dict[tuple[str, str], LinkRate] = {}
    buses = {(gpu.get("pcie_generation"), gpu.get("pcie_width")) for gpu in gpus}
    bus = pcie_bytes_per_s(*buses.pop()) if len(buses) == 1 else None
    for device, properties in device_properties.items():
        if bus is not None:
            links |= {(device, direction): LinkRate(bus, "pcie") for direction in ("h2d", "d2h")}
        bandwidth = properties.get("memory_bandwidth", "")
        if bandwidth.isascii() and bandwidth.isdecimal() and int(bandwidth):
            links[device, "d2d"] = LinkRate(int(bandwidth) / 2, "memory")
    return links


def pcie_bytes_per_s(generation: Json, width: Json) -> float | None:
    """Return a PCI Express link's bandwidth in one direction, or None for an unknown link."""
    if not isinstance(generation, int) or not isinstance(width, int):
        return None
    lane = _LANE_BYTES_PER_S.get(generation)
    return None if lane is None or not 0 < width <= _MAX_LANES else lane * width
