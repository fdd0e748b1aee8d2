"""The phases that a device's time, or a path through a step, is cut into."""

from __future__ import annotations

from enum import IntEnum

from traceanalyzer.tables.lanes import Doing

__all__ = ["Phase"]


class Phase(IntEnum):
    """What a device did, or waited for; those of `Doing` mean the same."""

    HOST_OP = Doing.HOST_OP
    INPUT = Doing.INPUT
    LAUNCH = Doing.LAUNCH
    RUNTIME = Doing.RUNTIME
    PROGRAM = Doing.PROGRAM
    COMPUTE = 7
    """Some kernel ran."""
    COPY = 8
    """No kernel ran, a copy did."""
    QUEUED = 9
    """What came next had been launched, and had not begun: the device's own queues."""
    OTHER_DEVICE = 10
    """Another device was waited for."""
    UNATTRIBUTED = 11
    """The trace does not tell."""
