"""What ran on the devices of one host, with its launch, on the host's clock.

Host and device clocks are set against each other by the profiler, and may be off: where work begins
before it was launched, the times of that device are moved until it does not (`shifts_ps`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.tables.thread_activity import ON_DEVICE, Launches
from traceanalyzer.tables.vocabulary import Role

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from traceanalyzer.tables.host_tables import HostTables


_ON_THE_HOST: Final = ("cpu", "host_memory")


@dataclass(frozen=True, eq=False, kw_only=True)
class DeviceWork:
    """The kernels, and after them the transfers, of a host's devices."""

    #: Names of the devices that ran kernels.
    devices: tuple[str, ...]
    #: Index into `devices`, -1 for another; int16.
    device: NDArray[np.int16]
    #: Number of the stream, of whatever device; int32.
    stream: NDArray[np.int32]
    #: Starts on the host's clock, int64.
    start_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    #: Row of the host's op table: of a kernel its op; of a transfer the op on the host that it is
    #: made for; -1 where none is known. int32.
    row: NDArray[np.int32]
    #: Row of the host's transfer table, -1 for a kernel; int64.
    transfer: NDArray[np.int64]
    launches: Launches
    #: What was added to the times of each device.
    shifts_ps: Mapping[str, int]

    @property
    def is_transfer(self) -> NDArray[np.bool_]:
        """Which events are transfers."""
        return self.transfer >= 0


def device_work(tables: HostTables) -> DeviceWork:
    """Gather what ran on a host's devices."""
    kernels, transfers = tables.kernels, tables.transfers
    on_device = np.flatnonzero(transfers["device"].notna().to_numpy())
    devices = [str(device) for device in kernels["device"].unique()]
    every = _names(tables, "device")  # those that only moved come last
    device = _numbers(tables, on_device, "device", every)
    streams = _names(tables, "stream")
    stream = _numbers(tables, on_device, "stream", streams)
    start_ps = np.concatenate([_starts(kernels), _starts(transfers)[on_device]])
    took = np.concatenate([durations(kernels), durations(transfers)[on_device]]).clip(0)
    threads = tables.threads
    shift_ps = np.zeros(len(start_ps), np.int64) if threads is None else threads.early_ps
    start_ps = start_ps + shift_ps
    shifts_ps = np.zeros(len(every), np.int64)
    shifts_ps[device] = shift_ps
    return DeviceWork(
        devices=tuple(devices),
        device=np.where(device < len(devices), device, -1).astype(np.int16),
        stream=(device * (len(streams) + 1) + stream + 1).astype(np.int32),
        start_ps=start_ps,
        end_ps=start_ps + took,
        row=np.concatenate([_rows(tables), _blamed(tables)[on_device]]),
        transfer=np.concatenate([np.full(len(kernels), -1, np.int64), on_device]),
        launches=_unknown(len(device)) if threads is None else threads.launches,
        shifts_ps=dict(zip(every, shifts_ps.tolist(), strict=True)),
    )


def durations(table: pd.DataFrame) -> NDArray[np.int64]:
    """Return the durations in a table, 0 where unknown; int64 picoseconds."""
    return np.asarray(table["duration_ps"].astype("Int64").fillna(0), np.int64)


def _unknown(n: int) -> Launches:
    none = np.zeros(n, np.int64)
    return Launches(np.full(n, ON_DEVICE, np.int32), none, none, np.zeros(n, np.bool_))


def _names(tables: HostTables, column: str) -> list[str]:
    """Return what a column of the kernels, and then of the transfers, holds."""
    found = (tables.kernels[column], tables.transfers[column].dropna())
    return list(dict.fromkeys(str(name) for values in found for name in values.unique()))


def _numbers(
    tables: HostTables, on_device: NDArray[np.int64], column: str, names: Sequence[str]
) -> NDArray[np.int64]:
    """Number what a column holds, of the kernels and of transfers on devices."""
    of_transfers = _codes(tables.transfers[column], names)[on_device]
    return np.concatenate([_codes(tables.kernels[column], names), of_transfers])


def _codes(column: pd.Series[str], names: Sequence[str]) -> NDArray[np.int64]:
    """Return the place of each entry among some names, -1 for none of them."""
    categories = column.astype("category")
    known = {name: k for k, name in enumerate(names)}
    numbers = [known.get(str(name), -1) for name in categories.cat.categories]
    return np.array([*numbers, -1], np.int64)[categories.cat.codes.to_numpy()]


def _rows(tables: HostTables) -> NDArray[np.int32]:
    """Return the row of each kernel's op."""
    row_of = {op_id: row for row, op_id in enumerate(tables.ops["op_id"].tolist())}
    ids = tables.kernels["op_id"].astype("category")
    rows = [row_of.get(op_id, -1) for op_id in ids.cat.categories]
    return np.array([*rows, -1], np.int32)[ids.cat.codes.to_numpy()]


def _blamed(tables: HostTables) -> NDArray[np.int32]:
    """Return the op that each transfer is made for: its end on the host; -1 where none is known."""
    ops, transfers = tables.ops, tables.transfers
    on_host = np.isin(ops["placement"].astype(object).to_numpy(), _ON_THE_HOST)
    role = ops["role"].astype(object).to_numpy()
    counts = (on_host & (role == Role.COMPUTE)) | (role == Role.INPUT_PIPELINE)
    row_of = {op_id: k for k, op_id in enumerate(ops["op_id"].tolist()) if counts[k]}
    direction = transfers["direction"].astype(object).to_numpy()
    blamed = np.full(len(transfers), -1, np.int32)
    for end, towards in (("producer", "h2d"), ("consumer", "d2h")):
        ids = transfers[end].astype("category")
        rows = np.array([*(row_of.get(i, -1) for i in ids.cat.categories), -1], np.int32)
        blamed = np.where(direction == towards, rows[ids.cat.codes.to_numpy()], blamed)
    return blamed.astype(np.int32)


def _starts(table: pd.DataFrame) -> NDArray[np.int64]:
    return np.asarray(table["start_ps"], np.int64)
