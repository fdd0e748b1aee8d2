"""Where the time went: steps, phases, the critical path, and what happened when."""

from typing import Literal, TypeAlias

from traceanalyzer.model._record import Count, PackedTable, Record, Share, Us

LaneKind: TypeAlias = Literal["steps", "stream", "copies", "thread"]
StepSource: TypeAlias = Literal["markers", "inferred", "missing"]


class StepKinds(Record):
    """How many steps are of each kind; ``partial`` are those that the recording cut."""

    regular: Count
    warm_up: Count
    outlier: Count
    partial: Count


class Steps(Record):
    """How steps were found and how long they took; the rows are in ``tables.steps``."""

    source: StepSource
    note: str | None = None
    count: Count | None = None  # of one host, as ``kinds``
    median_us: Us | None = None  # of the regular steps of all hosts, as ``p95_us``
    p95_us: Us | None = None
    kinds: StepKinds | None = None


class PhaseTime(Record):
    """Time of a phase per regular step. The phases add up to the whole."""

    phase: str  # of `traceanalyzer.timeline.phase`, in lower case
    us: Us
    share: Share


class DeviceTimeline(Record):
    """Where the time of one device went, per regular step.

    An idle device is in the phase of what it waited for.
    """

    host: str
    device: str | None  # None for the program's own thread, if no device ran kernels
    steps: Count | None  # None if unknown: the whole recording then counts as one
    us_per_step: Us
    phases: tuple[PhaseTime, ...]
    overlap_share: Share | None = None  # of host ops and copies, the time under some kernel


class Timeline(Record):
    """Where the time of the devices went."""

    devices: tuple[DeviceTimeline, ...]
    busiest_share: Share | None = None  # most time computing; None for fewer than two devices
    idlest_share: Share | None = None  # least time computing
    shift_us: Us = 0.0  # most that was added to a device's times, so that launches come first


class PathOp(Record):
    """An op on the critical path: as op of the host, kernel, copy or launch."""

    op_id: str
    name: str
    type: str
    placement: str
    us_per_step: Us
    share: Share


class CriticalPath(Record):
    """What a host's regular steps waited for, walked back from their ends; per step."""

    host: str
    steps: Count
    us_per_step: Us
    proved_share: Share  # attributed by a walk whose every step is in the trace
    phases: tuple[PhaseTime, ...]
    ops: tuple[PathOp, ...]  # the longest first
    ops_total: Count | None = None


class EventLane(Record):
    """A row of the timeline: steps, a device's stream, or a thread."""

    host: str
    name: str
    kind: LaneKind
    device: str | None = None
    plane: str | None = None
    is_program: bool = False  # the program's own thread
    rows: Count  # of the packed events
    events_total: Count  # before short ones were merged
    busy_us: Us  # no moment counted twice, waiting left out
    begin_us: float | None = None  # where the offsets of `TraceWhere` count from


class EventTimeline(Record):
    """Every event by lane; short ones are merged if there are many.

    ``names``: ``name``, ``kind``, ``op_id``, ``op`` (that op's name).
    ``events``, by lane and start: ``gap`` since the end of the previous event of the lane (the
    first: since 0) and ``duration``, in units of ``unit_ns``; ``what``, a row of ``names``;
    ``count``, how many events are merged in it.
    """

    unit_ns: Count
    end_us: Us
    lanes: tuple[EventLane, ...]
    lanes_total: Count
    names: PackedTable
    events: PackedTable
    events_total: Count  # of the lanes shown, before short ones were merged
    merged_total: Count  # of these, how many are merged
    merged_below_us: Us | None  # only shorter ones are merged
