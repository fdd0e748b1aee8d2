"""What is known of each copy beside its size: how much of it compute hid, and what it went over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from traceanalyzer.timeline.intervals import inside_ps, union
from traceanalyzer.transfers.grouping import codes_of
from traceanalyzer.transfers.links import Link
from traceanalyzer.units import PS_PER_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from traceanalyzer.timeline.intervals import Intervals

__all__ = ["LARGE_BYTES", "Traffic", "rows_of_devices", "traffic"]

LARGE_BYTES: Final = 128 * 1024
"""Size from which what it takes to set a copy off matters little: a tenth at 10 GB/s."""

_TOLERANCE: Final = 1.05  # clocks of devices tick in steps


@dataclass(frozen=True, eq=False, kw_only=True)
class Traffic:
    """What is known of each row of the copy table.

    Attributes:
        hidden_ps: Of its time, that in which a kernel of its device ran; null where the device or
            its time is not known.
        link: Index into `links`, -1 where none is known; int64.
        links: The links.
        kernels: When some kernel ran, by host and device; of the devices that copies are known of.
    """

    hidden_ps: pd.arrays.IntegerArray
    link: NDArray[np.int64]
    links: tuple[Link, ...]
    kernels: Mapping[tuple[str, str], Intervals]


def traffic(
    copies: pd.DataFrame,
    kernels: pd.DataFrame,
    told: Mapping[tuple[str, str, str], Link] | None = None,
    kernel_times: Mapping[tuple[str, str], Intervals] | None = None,
) -> Traffic:
    """Measure copies.

    Args:
        copies: The copy table.
        kernels: The kernel table.
        told: The links that are known, by host, device and direction. One that a copy outran is
            not the link it took. Where none is known, the fastest large copy of that direction in
            the trace stands in.
        kernel_times: When some kernel ran, by host and device; what is not there is looked up.
    """
    seen = _fastest(copies)
    codes = [codes_of(copies[c]) for c in ("host", "device", "direction")]
    texts = [[*map(str, copies[c].cat.categories), ""] for c in ("host", "device", "direction")]
    sizes = [len(t) for t in texts]
    packed = ((codes[0] + 1) * sizes[1] + codes[1] + 1) * sizes[2] + codes[2] + 1
    distinct, inverse = np.unique(packed, return_inverse=True)
    numbers: dict[Link, int] = {}
    chosen = []
    for code in distinct.tolist():
        rest, direction = divmod(code, sizes[2])
        host, device = divmod(rest, sizes[1])
        key = (texts[0][host - 1], texts[1][device - 1], texts[2][direction - 1])
        link = _link(key, told or {}, seen)
        chosen.append(-1 if link is None else numbers.setdefault(link, len(numbers)))
    rows = rows_of_devices(copies)
    known = kernel_times or {}
    times = {d: known[d] if d in known else _kernel_times(kernels, *d) for d in rows}
    return Traffic(
        hidden_ps=_hidden_ps(copies, rows, times),
        link=np.array(chosen, np.int64)[inverse.reshape(-1)],
        links=tuple(numbers),
        kernels=times,
    )


def _link(
    key: tuple[str, str, str], told: Mapping[tuple[str, str, str], Link], seen: Mapping[str, float]
) -> Link | None:
    fastest = seen.get(key[2])
    known = told.get(key)
    if known is not None and (fastest is None or fastest <= known.bytes_per_s * _TOLERANCE):
        return known
    return None if fastest is None else Link(bytes_per_s=fastest, source="seen")


def _fastest(copies: pd.DataFrame) -> dict[str, float]:
    """Return the highest rate of the large copies of each direction, bytes a second."""
    size = copies["bytes"].fillna(0).to_numpy(np.int64)
    took = copies["duration_ps"].fillna(0).to_numpy(np.int64)
    code = copies["direction"].cat.codes.to_numpy()
    found = {}
    large = (size >= LARGE_BYTES) & (took > 0)
    for k, direction in enumerate(copies["direction"].cat.categories):
        of_it = large & (code == k)
        if of_it.any():
            found[str(direction)] = float((size[of_it] / took[of_it]).max() * PS_PER_S)
    return found


def _hidden_ps(
    copies: pd.DataFrame,
    rows: Mapping[tuple[str, str], NDArray[np.int64]],
    kernels: Mapping[tuple[str, str], Intervals],
) -> pd.arrays.IntegerArray:
    """Return how much of each copy's time some kernel of its device ran, null where unknown."""
    took = copies["duration_ps"]
    start = copies["start_ps"].to_numpy(np.int64)
    end = start + took.fillna(0).to_numpy(np.int64)
    hidden = np.zeros(len(copies), np.int64)
    is_known = np.zeros(len(copies), np.bool_)
    for device, chosen in rows.items():
        hidden[chosen] = inside_ps(kernels[device], start[chosen], end[chosen])
        is_known[chosen] = True
    is_known &= took.notna().to_numpy()
    return pd.arrays.IntegerArray(np.where(is_known, hidden, 0), ~is_known)


def _kernel_times(kernels: pd.DataFrame, host: str, device: str) -> Intervals:
    """Return when some kernel of a device ran."""
    chosen = ((kernels["host"] == host) & (kernels["device"] == device)).to_numpy()
    return union(
        kernels["start_ps"].to_numpy(np.int64)[chosen],
        kernels["duration_ps"].to_numpy(np.int64)[chosen],
    )


def rows_of_devices(copies: pd.DataFrame) -> dict[tuple[str, str], NDArray[np.int64]]:
    """Return the rows of the copies of each host and device that are known."""
    host, device = (codes_of(copies[c]) for c in ("host", "device"))
    hosts, devices = (copies[c].cat.categories for c in ("host", "device"))
    packed = np.where((host >= 0) & (device >= 0), host * len(devices) + device, -1)
    return {
        (str(hosts[p // len(devices)]), str(devices[p % len(devices)])): np.flatnonzero(packed == p)
        for p in np.unique(packed).tolist()
        if p >= 0
    }
