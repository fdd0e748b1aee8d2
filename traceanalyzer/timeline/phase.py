"""The phases that a device's time, or a path through a step, is cut into."""

from __future__ import annotations

from enum import IntEnum

from traceanalyzer.tables.thread_activity import ThreadState


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
    """No kernel ran, a copy did."""
    QUEUED = 10
    """What came next had been launched, and had not begun: the device's own queues."""
    OTHER_DEVICE = 11
    """Another device was waited for."""
    UNATTRIBUTED = 12
    """The trace does not show it."""
