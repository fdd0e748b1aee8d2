"""Kernels and transfers of one host's devices, with their launches, on the host's clock.

The profiler aligns the clocks of host and devices, with some error: if work begins before its
launch, the times of that device are shifted so that it does not (`shifts_ps`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from traceanalyzer.tables.thread_activity import ON_DEVICE, Launches
from traceanalyzer.tables.vocabulary import Role

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from traceanalyzer.tables.host_tables import HostTables

_ON_THE_HOST: Final = ("cpu", "host_memory")


@dataclass(frozen=True, eq=False, kw_only=True)
class DeviceWork:
    """The kernels, and after them the transfers, of a host's devices."""

    devices: tuple[str, ...]  #: names of the devices that ran kernels
    device: NDArray[np.int16]  #: index into `devices`, -1 for another
    stream: NDArray[np.int32]  #: number of the stream, unique over all devices
    start_ps: NDArray[np.int64]  #: on the host's clock
    end_ps: NDArray[np.int64]
    #: Row in the host's op table: for a kernel, its op; for a transfer, the host op that needs it;
    #: -1 if unknown.
    row: NDArray[np.int32]
    transfer: NDArray[np.int64]  #: row of the host's transfer table, -1 for a kernel
    launches: Launches
    shifts_ps: Mapping[str, int]  #: the shift of each device's times

    @property
    def is_transfer(self) -> NDArray[np.bool_]:
        """Which events are transfers."""
        return self.transfer >= 0


def device_work(tables: HostTables) -> DeviceWork:
    """Gather the work of a host's devices."""
    kernels, threads = tables.kernels, tables.threads
    on_device = np.flatnonzero(tables.transfers["device"].notna())
    transfers = tables.transfers.iloc[on_device]
    device, every = _numbers(kernels["device"], transfers["device"])  # without kernels: last
    stream, streams = _numbers(kernels["stream"], transfers["stream"])
    computing = kernels["device"].nunique()
    shift_ps = np.zeros(len(device), np.int64) if threads is None else threads.early_ps
    shifts_ps = np.zeros(len(every), np.int64)
    shifts_ps[device] = shift_ps
    starts = [table["start_ps"].to_numpy(np.int64) for table in (kernels, transfers)]
    start_ps = np.concatenate(starts) + shift_ps
    took = np.concatenate([durations(kernels), durations(transfers)]).clip(0)
    of_kernel = _rows(kernels["op_id"], tables.ops)
    return DeviceWork(
        devices=tuple(every[:computing]),
        device=np.where(device < computing, device, -1).astype(np.int16),
        stream=(device * (len(streams) + 1) + stream + 1).astype(np.int32),
        start_ps=start_ps,
        end_ps=start_ps + took,
        row=np.concatenate([of_kernel, _blamed(transfers, tables.ops)]),
        transfer=np.concatenate([np.full(len(kernels), -1), on_device]),
        launches=_unknown(len(device)) if threads is None else threads.launches,
        shifts_ps=dict(zip(every, shifts_ps.tolist(), strict=True)),
    )


def durations(table: pd.DataFrame) -> NDArray[np.int64]:
    """Return the durations in a table, 0 where unknown; int64 picoseconds."""
    return np.asarray(table["duration_ps"].astype("Int64").fillna(0), np.int64)


def _unknown(n: int) -> Launches:
    none = np.zeros(n, np.int64)
    return Launches(np.full(n, ON_DEVICE, np.int32), none, none, np.zeros(n, np.bool_))


def _numbers(*columns: pd.Series[str]) -> tuple[NDArray[np.int64], list[str]]:
    """Number the texts in some columns by first occurrence, -1 for null; return the texts, too."""
    parts = [pd.Categorical(column) for column in columns]
    # The categories need one dtype to be joined; pandas may infer different ones.
    parts = [pd.Categorical.from_codes(p.codes, p.categories.astype(object)) for p in parts]
    codes, texts = pd.factorize(pd.api.types.union_categoricals(parts))
    return codes.astype(np.int64), [str(text) for text in texts]


def _rows(op_ids: pd.Series[str], ops: pd.DataFrame) -> NDArray[np.int32]:
    """Return the row of each op among `ops`, -1 for none."""
    row_of = pd.Series(np.arange(len(ops)), ops["op_id"])
    ids = op_ids.astype("category")
    rows = row_of.reindex(ids.cat.categories, fill_value=-1).to_numpy()
    return np.append(rows, -1).astype(np.int32)[ids.cat.codes.to_numpy()]


def _blamed(transfers: pd.DataFrame, ops: pd.DataFrame) -> NDArray[np.int32]:
    """Return the op that each transfer is made for: its end on the host; -1 if unknown."""
    is_host_op = ops["placement"].isin(_ON_THE_HOST) & (ops["role"] == Role.COMPUTE)
    counts = np.append(is_host_op | (ops["role"] == Role.INPUT_PIPELINE), False)
    blamed = np.full(len(transfers), -1, np.int32)
    for end, towards in (("producer", "h2d"), ("consumer", "d2h")):
        rows = _rows(transfers[end], ops)
        chosen = (transfers["direction"] == towards).to_numpy() & counts[rows]
        blamed[chosen] = rows[chosen]
    return blamed
