"""The phases that a device's time, or a path through a step, is cut into, and shares of them."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from traceanalyzer.tables.thread_activity import ThreadState
from traceanalyzer.timeline.device_work import durations
from traceanalyzer.timeline.intervals import common, inside_ps, union

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.tables.host_tables import HostTables
    from traceanalyzer.timeline.device_parts import DeviceParts
    from traceanalyzer.timeline.intervals import Intervals
    from traceanalyzer.timeline.walk import Parts


class Phase(IntEnum):
    """What a device did, or waited for; those of `ThreadState` mean the same."""

    HOST_OP = ThreadState.HOST_OP
    INPUT = ThreadState.INPUT
    LAUNCH = ThreadState.LAUNCH
    RUNTIME = ThreadState.RUNTIME
    PROGRAM = ThreadState.PROGRAM
    UNPLACED = ThreadState.UNPLACED
    COMPUTE = 8
    """Some kernel ran."""
    COPY = 9
    """No kernel ran, a transfer did."""
    QUEUED = 10
    """What came next had been launched, and had not begun: the device's own queues."""
    OTHER_DEVICE = 11
    """Another device was waited for."""
    UNATTRIBUTED = 12
    """The trace does not show it."""


PHASE_COLUMNS: Final = {phase: f"{phase.name.lower()}_ps" for phase in Phase}
"""Name of the column that holds the time of each phase."""


def phases_within(
    parts: Parts, start_ps: NDArray[np.int64], duration_ps: NDArray[np.int64]
) -> pd.DataFrame:
    """Return how much of each interval, a step mostly, went to each phase.

    Returns:
        A row an interval, a column a phase (`PHASE_COLUMNS`), int64 picoseconds. They add up to
        the interval, as far as it lies between the first and the last part.
    """
    end_ps = start_ps + duration_ps.clip(0)
    columns = {}
    for phase, name in PHASE_COLUMNS.items():
        chosen = parts.phase == phase
        times = union(parts.start_ps[chosen], parts.duration_ps[chosen])
        columns[name] = inside_ps(times, start_ps, end_ps)
    return pd.DataFrame(columns)


def overlap_share(
    tables: HostTables, device: DeviceParts, shift_ps: int, within: Intervals
) -> float | None:
    """Return the share of host work and transfers that ran while a device computed.

    Args:
        tables: The host's tables.
        device: The device.
        shift_ps: What was added to the device's times.
        within: The times to look at, the steps mostly.

    Returns:
        Of the time in which some op of the host or of the input pipeline ran, or a transfer to or
        from the device, the part in which a kernel ran too; None where none of them did.
    """
    threads, parts = tables.threads, device.parts
    own = tables.transfers[tables.transfers["device"] == device.device]
    starts, lasted = [own["start_ps"].to_numpy(np.int64) + shift_ps], [durations(own)]
    if threads is not None:
        busy = np.isin(threads.state, (ThreadState.HOST_OP, ThreadState.INPUT))
        starts.append(threads.start_ps[busy])
        lasted.append((threads.end_ps - threads.start_ps)[busy])
    beside = common(union(np.concatenate(starts), np.concatenate(lasted)), within)
    computes = parts.phase == Phase.COMPUTE
    kernels = union(parts.start_ps[computes], parts.duration_ps[computes])
    return common(beside, kernels).total_ps / beside.total_ps if beside.total_ps else None
