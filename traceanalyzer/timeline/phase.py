"""Phases of a device's time or of a path through a step, and shares of them."""

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
    """Activities and waits of a device; those from `ThreadState` have the same meaning."""

    HOST_OP = ThreadState.HOST_OP
    INPUT = ThreadState.INPUT
    LAUNCH = ThreadState.LAUNCH
    RUNTIME = ThreadState.RUNTIME
    PROGRAM = ThreadState.PROGRAM
    UNPLACED = ThreadState.UNPLACED
    COMPUTE = 8
    """Some kernel ran."""
    COPY = 9
    """A transfer ran, but no kernel."""
    QUEUED = 10
    """The next work was launched but had not begun: it was in the device's queues."""
    OTHER_DEVICE = 11
    """The device waited for another device."""
    UNATTRIBUTED = 12
    """The trace does not show the reason."""


PHASE_COLUMNS: Final = {phase: f"{phase.name.lower()}_ps" for phase in Phase}
"""Name of the column with the time of each phase."""


def phases_within(
    parts: Parts, start_ps: NDArray[np.int64], duration_ps: NDArray[np.int64]
) -> pd.DataFrame:
    """Return how much of each interval (mostly a step) each phase took.

    Returns:
        A row per interval, a column per phase (`PHASE_COLUMNS`), int64 picoseconds. They add up to
        the part of the interval that is between the first and the last part.
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
        shift_ps: The shift of the device's times.
        within: The times to consider, mostly the steps.

    Returns:
        The share of the time of host ops, input pipeline ops, and transfers to or from the device
        during which a kernel ran too; None if there were none.
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
