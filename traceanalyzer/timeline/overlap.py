"""How much of what goes on beside a device's kernels is hidden by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.tables.thread_activity import ThreadState
from traceanalyzer.timeline.device_work import durations
from traceanalyzer.timeline.intervals import NO_TIME, common, union
from traceanalyzer.timeline.phase import Phase

if TYPE_CHECKING:
    from traceanalyzer.tables.host_tables import HostTables
    from traceanalyzer.timeline.device_parts import DeviceParts
    from traceanalyzer.timeline.intervals import Intervals


def overlap_share(
    tables: HostTables, device: DeviceParts, shift_ps: int, within: Intervals
) -> float | None:
    """Return the share of host work and copies that ran while the device computed.

    Args:
        tables: The host's tables.
        device: The device.
        shift_ps: What was added to the device's times.
        within: The times to look at, the steps mostly.

    Returns:
        Of the time in which some op of the host or of the input pipeline ran, or a copy to or from
        the device, the part in which a kernel ran too; None where none of them did.
    """
    lanes, copies = tables.threads, tables.transfers
    own = (copies["device"] == device.device).to_numpy()
    work = [(copies["start_ps"].to_numpy(np.int64)[own] + shift_ps, durations(copies)[own])]
    if lanes is not None:
        busy = np.isin(lanes.state, (ThreadState.HOST_OP, ThreadState.INPUT))
        work.append((lanes.start_ps[busy], (lanes.end_ps - lanes.start_ps)[busy]))
    starts, lengths = (np.concatenate(column) for column in zip(*work, strict=True))
    beside = common(union(starts, lengths), within) if len(starts) else NO_TIME
    if not beside.total_ps:
        return None
    parts = device.parts
    computes = parts.phase == Phase.COMPUTE
    kernels = union(parts.start_ps[computes], parts.duration_ps[computes])
    return common(beside, kernels).total_ps / beside.total_ps
