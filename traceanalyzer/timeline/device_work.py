"""What ran on the devices of one host, with its launch, on the host's clock.

Host and device clocks are set against each other by the profiler, and may be off: where work begins
before it was launched, the device's times are moved until it does not (`shift_ps`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from traceanalyzer.tables.lanes import DEVICE_LANE
from traceanalyzer.tables.vocabulary import Role

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from traceanalyzer.tables.host_tables import HostTables
    from traceanalyzer.tables.lanes import Lanes

__all__ = ["DeviceWork", "Launches", "device_work", "durations"]

_TOO_EARLY_SHARE: Final = 0.01  # work that begins before its launch, until clocks are called off
_ON_THE_HOST: Final = ("cpu", "host_memory")


class Launches(NamedTuple):
    """The launch of each of some device events.

    Attributes:
        lane: The thread that made it, -1 where unknown; int32.
        start_ps: When it began, int64.
        end_ps: When it returned, int64.
    """

    lane: NDArray[np.int32]
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]

    def take(self, rows: NDArray[np.int64]) -> Launches:
        """Return those at `rows`."""
        return Launches(self.lane[rows], self.start_ps[rows], self.end_ps[rows])


@dataclass(frozen=True, eq=False, kw_only=True)
class DeviceWork:
    """The kernels, and after them the copies, of a host's devices.

    Attributes:
        devices: Names of the devices that ran kernels.
        device: Index into `devices`, -1 for another; int16.
        start_ps: Starts on the host's clock, int64.
        end_ps: Ends, int64.
        row: Row of the host's op table: of a kernel its op; of a copy the op on the host that it is
            made for; -1 where none is known. int32.
        copy: Row of the host's copy table, -1 for a kernel; int64.
        launches: The launches.
        shift_ps: What was added to the times of devices.
    """

    devices: tuple[str, ...]
    device: NDArray[np.int16]
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    row: NDArray[np.int32]
    copy: NDArray[np.int64]
    launches: Launches
    shift_ps: int

    @property
    def is_copy(self) -> NDArray[np.bool_]:
        """Which events are copies."""
        return self.copy >= 0


def device_work(tables: HostTables) -> DeviceWork:
    """Gather what ran on a host's devices."""
    kernels, copies = tables.kernels, tables.copies
    on_device = np.flatnonzero(copies["device"].notna().to_numpy())
    devices = [str(device) for device in kernels["device"].unique()]
    launches = _launches(np.concatenate([_ids(kernels), _ids(copies)[on_device]]), tables.lanes)
    start_ps = np.concatenate([_starts(kernels), _starts(copies)[on_device]])
    took = np.concatenate([durations(kernels), durations(copies)[on_device]]).clip(0)
    shift_ps = _shift_ps(start_ps, launches)
    return DeviceWork(
        devices=tuple(devices),
        device=np.concatenate([_devices(kernels, devices), _devices(copies, devices)[on_device]]),
        start_ps=start_ps + shift_ps,
        end_ps=start_ps + shift_ps + took,
        row=np.concatenate([_rows(tables), _blamed(tables)[on_device]]),
        copy=np.concatenate([np.full(len(kernels), -1, np.int64), on_device]),
        launches=launches,
        shift_ps=shift_ps,
    )


def durations(table: pd.DataFrame) -> NDArray[np.int64]:
    """Return the durations in a table, 0 where unknown; int64 picoseconds."""
    return np.asarray(table["duration_ps"].astype("Int64").fillna(0), np.int64)


def _launches(ids: NDArray[np.int64], lanes: Lanes | None) -> Launches:
    if lanes is None or not len(lanes.launch_id):
        none = np.zeros(len(ids), np.int64)
        return Launches(np.full(len(ids), DEVICE_LANE, np.int32), none, none)
    slot = np.searchsorted(lanes.launch_id, ids).clip(max=len(lanes.launch_id) - 1)
    known = (lanes.launch_id[slot] == ids) & (ids != 0)
    return Launches(
        np.where(known, lanes.launch_lane[slot], DEVICE_LANE).astype(np.int32),
        lanes.launch_start_ps[slot],
        lanes.launch_end_ps[slot],
    )


def _shift_ps(start_ps: NDArray[np.int64], launches: Launches) -> int:
    """Return by how much devices' clocks are early.

    Single events prove nothing: their ids may be those of others.
    """
    known = launches.lane != DEVICE_LANE
    if not known.any():
        return 0
    late = start_ps[known] - launches.start_ps[known]
    rank = min(max(1, int(len(late) * _TOO_EARLY_SHARE)), len(late) - 1)
    return max(0, -int(np.partition(late, rank)[rank]))


def _devices(table: pd.DataFrame, devices: list[str]) -> NDArray[np.int16]:
    column = table["device"].astype("category")
    known = {name: k for k, name in enumerate(devices)}
    numbers = [known.get(str(name), -1) for name in column.cat.categories]
    return np.array([*numbers, -1], np.int16)[column.cat.codes.to_numpy()]


def _rows(tables: HostTables) -> NDArray[np.int32]:
    """Return the row of each kernel's op."""
    row_of = {op_id: row for row, op_id in enumerate(tables.ops["op_id"].tolist())}
    ids = tables.kernels["op_id"].astype("category")
    rows = [row_of.get(op_id, -1) for op_id in ids.cat.categories]
    return np.array([*rows, -1], np.int32)[ids.cat.codes.to_numpy()]


def _blamed(tables: HostTables) -> NDArray[np.int32]:
    """Return the op that each copy is made for: its end on the host; -1 where none is known."""
    ops, copies = tables.ops, tables.copies
    on_host = np.isin(ops["placement"].astype(object).to_numpy(), _ON_THE_HOST)
    role = ops["role"].astype(object).to_numpy()
    counts = (on_host & (role == Role.COMPUTE)) | (role == Role.INPUT_PIPELINE)
    row_of = {op_id: k for k, op_id in enumerate(ops["op_id"].tolist()) if counts[k]}
    direction = copies["direction"].astype(object).to_numpy()
    blamed = np.full(len(copies), -1, np.int32)
    for end, way in (("producer", "h2d"), ("consumer", "d2h")):
        ids = copies[end].astype("category")
        rows = np.array([*(row_of.get(i, -1) for i in ids.cat.categories), -1], np.int32)
        blamed = np.where(direction == way, rows[ids.cat.codes.to_numpy()], blamed)
    return blamed.astype(np.int32)


def _ids(table: pd.DataFrame) -> NDArray[np.int64]:
    return np.asarray(table["correlation_id"], np.int64)


def _starts(table: pd.DataFrame) -> NDArray[np.int64]:
    return np.asarray(table["start_ps"], np.int64)
