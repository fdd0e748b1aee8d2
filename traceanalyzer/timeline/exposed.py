"""Exposed time: how long devices stood idle because of an op or a transfer.

An op's exposed time is the idle time in which the walk back from what came next passes through the
op, and the time in which nothing but a transfer ran that is made for it. Each moment of a device is
attributed once, so that the exposed times of all ops add up to no more than the idle time. Of
several devices of a host it is the mean. What waited for a compute op of unknown placement is not
counted: the op may have run on the device, and need not be in the way. Input is waited for on the
host wherever the op that gets it is placed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from traceanalyzer.native.events import sum_by
from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.timeline.phase import Phase

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.tables.host_tables import HostTables
    from traceanalyzer.timeline.device_parts import HostTimeline
    from traceanalyzer.timeline.walk import Parts


_WAITED_FOR: Final = (Phase.HOST_OP, Phase.INPUT, Phase.COPY)


def is_exposed(parts: Parts) -> NDArray[np.bool_]:
    """Tell in which parts a device waited for an op of the host, or for a transfer made for one."""
    waited: NDArray[np.bool_] = np.isin(parts.phase, _WAITED_FOR) & (parts.row >= 0)
    return waited


def with_exposed(tables: HostTables, timeline: HostTimeline) -> HostTables:
    """Return a host's tables with the exposed time of ops and transfers.

    It stays null where no device ran kernels: what did not compute did not wait; and for compute
    ops of unknown placement.
    """
    devices = timeline.devices
    if not devices:
        return tables
    of_ops = np.zeros(len(tables.ops), np.int64)
    of_transfers = np.zeros(len(tables.transfers), np.int64)
    on_device = np.zeros(len(tables.transfers), np.bool_)
    for device in devices:
        parts = device.parts
        row = np.where(is_exposed(parts), parts.row, -1).astype(np.int64)
        of_ops += sum_by(row, parts.duration_ps, len(of_ops))
        of_transfers += sum_by(parts.transfer, parts.duration_ps, len(of_transfers))
        on_device |= (tables.transfers["device"] == device.device).to_numpy()
    is_unplaced = (tables.ops["placement"] == "unknown") & (tables.ops["role"] == Role.COMPUTE)
    exposed_ps = pd.arrays.IntegerArray(of_ops // len(devices), is_unplaced.to_numpy(np.bool_))
    return replace(
        tables,
        ops=tables.ops.assign(exposed_ps=exposed_ps),
        transfers=tables.transfers.assign(
            exposed_ps=pd.arrays.IntegerArray(of_transfers, ~on_device)
        ),
    )
