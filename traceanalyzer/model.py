"""The Report: the one document that the page, the JSON and the terminal are renderings of.

Field for field this is ``report.json``, schema version 1. Names carry their unit: ``_us`` is
microseconds with three decimals, ``_share`` a fraction between 0 and 1, ``bytes`` whole bytes.
``None`` means unknown and is shown as such; it never means zero.

Records settle their values as they are built: figures are rounded here and nowhere else, a
not-a-number becomes ``None``, scalars of numpy and pandas become plain ones, lists become tuples.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias

__all__ = [
    "SCHEMA_VERSION",
    "AllocatorMemory",
    "Belief",
    "Blocker",
    "CaptureFileWhere",
    "Cell",
    "Certainty",
    "CopyEdge",
    "CopyGraph",
    "CopyNode",
    "CopyStorm",
    "Cost",
    "CriticalPath",
    "DeviceCopies",
    "DeviceInfo",
    "DeviceTimeline",
    "Direction",
    "EventLane",
    "EventTimeline",
    "Evidence",
    "ExplainedShares",
    "Finding",
    "Fix",
    "Gain",
    "Harm",
    "Health",
    "IdleGap",
    "InputCure",
    "InputHost",
    "InputPipeline",
    "InputVerdict",
    "Island",
    "IslandCopies",
    "IslandMove",
    "LaneKind",
    "LinkSource",
    "Memory",
    "MemoryGrowth",
    "MemoryHolder",
    "MemoryKind",
    "MemoryPeak",
    "MovedOp",
    "OnAGpu",
    "OpRef",
    "PackedTable",
    "PathOp",
    "PhaseTime",
    "ReadBack",
    "Reader",
    "Report",
    "RuleState",
    "RuleStatus",
    "RuledOut",
    "RunInfo",
    "Scopes",
    "Severity",
    "SourceWhere",
    "StepKinds",
    "StepPhases",
    "StepTime",
    "Steps",
    "StormEdge",
    "Summary",
    "Table",
    "Tables",
    "TfVersion",
    "Timeline",
    "ToolInfo",
    "TraceWhere",
    "Unexplained",
    "UnexplainedOp",
    "Where",
    "number_in",
]

SCHEMA_VERSION = 1

Certainty: TypeAlias = Literal["certain", "likely", "possible"]
Harm: TypeAlias = Literal["harmful", "harmless", "by_design"]
Severity: TypeAlias = Literal["info", "warning", "error"]
RuleState: TypeAlias = Literal["fired", "silent", "not_applicable", "failed"]
Direction: TypeAlias = Literal["h2d", "d2h", "d2d", "p2p", "h2h", "unknown"]
# Whose figure a link's is: of the bus, of the device's memory, or the best that copies reached.
LinkSource: TypeAlias = Literal["pcie", "memory", "seen"]
Reader: TypeAlias = Literal["python", "predicate", "host_argument", "cpu_op", "unknown"]
LaneKind: TypeAlias = Literal["steps", "stream", "copies", "thread"]
StepSource: TypeAlias = Literal["markers", "inferred", "missing"]
MemoryKind: TypeAlias = Literal["device", "pinned_host", "host", "unknown"]
InputVerdict: TypeAlias = Literal["keeps_up", "too_slow", "unknown"]
Cell: TypeAlias = str | int | float | bool | None

_US_DECIMALS = 3
_SHARE_DECIMALS = 6
_SHARES = frozenset({"certain", "likely", "possible", "share"})
_WHOLE = frozenset({"bytes", "count", "kernels", "line", "occurrences", "rows"})
_PLAIN = frozenset({str, int, bool, type(None)})
# By name: this module is read where pandas is not, and pandas' missing values are no floats.
_PANDAS_MISSING = frozenset({"NAType", "NaTType"})


def number_in(cell: Cell) -> float:
    """Returns the number in a cell; 0 where there is none."""
    return float(cell) if isinstance(cell, int | float) else 0.0


def _settled(name: str, value: Any) -> Any:  # noqa: ANN401 - any field of any record
    """Returns a value as it stands in the document: plain, rounded, ``None`` when unknown."""
    if type(value) in _PLAIN or isinstance(value, str | bool):
        return value
    if isinstance(value, list | tuple):
        return tuple(_settled(name, item) for item in value)
    if type(value).__name__ in _PANDAS_MISSING:
        return None
    if hasattr(value, "item"):  # a scalar of numpy
        value = value.item()
    if isinstance(value, numbers.Real) and not isinstance(value, int):
        return _settled_float(name, float(value))
    return value


def _settled_float(name: str, value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    unit = name.rsplit("_", 1)[-1]
    if unit in _WHOLE and value.is_integer():
        return int(value)  # pandas turns a column of integers with gaps into floats
    rounded = round(value, _SHARE_DECIMALS if unit in _SHARES else _US_DECIMALS)
    return rounded + 0.0  # -0.0 reads as a sign where there is none


def _as_json(value: Any) -> Any:  # noqa: ANN401 - any field of any record
    if isinstance(value, _Record):
        return {field.name: _as_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [_as_json(item) for item in value]
    return value


@dataclass(frozen=True, kw_only=True)
class _Record:
    """What every record of the document shares."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = _settled(field.name, getattr(self, field.name))
            object.__setattr__(self, field.name, value)

    def as_json(self) -> dict[str, Any]:
        """Returns the record as dicts, lists and scalars, keys in the contract's order."""
        plain: dict[str, Any] = _as_json(self)
        return plain


@dataclass(frozen=True, kw_only=True)
class ToolInfo(_Record):
    """The tool that made the report."""

    name: str = "traceanalyzer"
    version: str


@dataclass(frozen=True, kw_only=True)
class TfVersion(_Record):
    """TensorFlow's version and how it is known."""

    value: str | None
    source: str | None  # "capture file", "trace", ...; None where the version is unknown


@dataclass(frozen=True, kw_only=True)
class DeviceInfo(_Record):
    """A device of the run and how busy it was."""

    name: str
    kind: str  # "cpu", "gpu", "tpu", ...
    model: str | None = None
    kernels: int | None = None
    busy_us: float | None = None
    busy_share: float | None = None  # of the run's duration


@dataclass(frozen=True, kw_only=True)
class RunInfo(_Record):
    """The profiled run."""

    name: str
    path_name: str  # the last part of the path: a report names no folder of its author
    hosts: tuple[str, ...]
    tf_version: TfVersion
    duration_us: float | None
    steps: int | None
    devices: tuple[DeviceInfo, ...]
    command: str | None = None  # what to type for the same: the capture, or the report of a trace
    recorded_at: str | None = None  # when the recording began, in UTC: 2026-01-31 12:00:00
    host_tracer_level: int | None = None  # that was in force; None where nothing tells


@dataclass(frozen=True, kw_only=True)
class Health(_Record):
    """Something that limits what this trace can tell."""

    id: str
    severity: Severity
    message: str


@dataclass(frozen=True, kw_only=True)
class ExplainedShares(_Record):
    """Shares of ``cpu_op_us`` whose cause is known, by certainty."""

    certain: float | None
    likely: float | None
    possible: float | None


@dataclass(frozen=True, kw_only=True)
class StepTime(_Record):
    """Step time over the steps of the run."""

    median: float | None
    p95: float | None


@dataclass(frozen=True, kw_only=True)
class Summary(_Record):
    """The first screen: one sentence and the figures behind it."""

    verdict: str
    cpu_ops: int
    cpu_op_us: float
    explained: ExplainedShares
    explained_share: float | None  # certain + likely; None when no GPU was visible
    gpu_idle_share: float | None  # of the regular steps; of the recording where there are none
    step_us: StepTime | None
    exposed_us_per_step: float | None


@dataclass(frozen=True, kw_only=True)
class OpRef(_Record):
    """An op, by its stable key, with the name beside it."""

    op_id: str
    name: str
    type: str
    host: str
    placement: str
    file: str | None = None
    line: int | None = None
    source: str | None = None  # what stands on that line


@dataclass(frozen=True, kw_only=True)
class TraceWhere(_Record):
    """A place in the trace: an event, or the whole line where offset and duration are None.

    The offset is the event's own (XEvent.offset_ps): it counts from where its line begins.
    """

    host: str | None
    plane: str
    line: str | None
    offset_ps: int | None = None
    duration_ps: int | None = None


@dataclass(frozen=True, kw_only=True)
class SourceWhere(_Record):
    """A place in the user's source."""

    file: str
    line: int | None
    source: str | None = None  # what stands on that line


@dataclass(frozen=True, kw_only=True)
class CaptureFileWhere(_Record):
    """An entry of the capture file."""

    sidecar: str


Where: TypeAlias = TraceWhere | SourceWhere | CaptureFileWhere


@dataclass(frozen=True, kw_only=True)
class Evidence(_Record):
    """One observed fact. ``where`` is None for facts outside the run, such as the registry's."""

    kind: str
    text: str
    where: Where | None = None


@dataclass(frozen=True, kw_only=True)
class Blocker(_Record):
    """One of the reasons that keep an op off the GPU; ``sufficient`` if it alone would do."""

    cause: str
    certainty: Certainty
    sufficient: bool
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RuledOut(_Record):
    """A cause that was considered and does not hold."""

    cause: str
    because: str


@dataclass(frozen=True, kw_only=True)
class Cost(_Record):
    """What ops on the CPU took, and what the GPU waited for because of them."""

    host_us: float | None
    copy_us: float | None
    copy_bytes: int | None
    exposed_us_per_step: float | None
    host_us_per_step: float | None = None  # of the host time, within the regular steps


@dataclass(frozen=True, kw_only=True)
class Gain(_Record):
    """The range in which the gain of a fix lies, microseconds per step."""

    low: float | None
    high: float | None
    basis: str  # "exposed", "critical path" or "input wait"
    note: str | None = None  # why the lower bound is lower


@dataclass(frozen=True, kw_only=True)
class Fix(_Record):
    """Something to change; ``checked`` if the op then has a GPU kernel and is placed there."""

    text: str
    code: str | None = None
    checked: bool = False


@dataclass(frozen=True, kw_only=True)
class Finding(_Record):
    """Why some ops ran on the CPU."""

    id: str
    cause: str
    sub_reason: str | None = None
    certainty: Certainty
    harm: Harm
    title: str
    why: str
    modifiers: tuple[str, ...] = ()
    ops: tuple[OpRef, ...]
    dragged_along: tuple[OpRef, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    evidence: tuple[Evidence, ...]
    ruled_out: tuple[RuledOut, ...] = ()
    cost: Cost
    gain_us_per_step: Gain | None = None
    fixes: tuple[Fix, ...] = ()
    path_us_per_step: float | None = None  # what of the critical path is in its ops
    ops_total: int | None = None  # how many ops there are where ``ops`` was cut


@dataclass(frozen=True, kw_only=True)
class UnexplainedOp(OpRef):
    """A CPU-placed op without a known cause, and what would settle it."""

    occurrences: int | None = None
    cost: Cost
    candidates: tuple[str, ...] = ()  # causes that the evidence does not exclude
    settled_by: str | None = None  # the capture that would tell them apart


@dataclass(frozen=True, kw_only=True)
class Unexplained(_Record):
    """The CPU-placed ops without a known cause."""

    cpu_op_us: float
    ops: tuple[UnexplainedOp, ...]
    ops_total: int | None = None  # how many ops there are where ``ops`` was cut


@dataclass(frozen=True, kw_only=True)
class RuleStatus(_Record):
    """Whether a cause was found in the run, and if not, why."""

    cause: str
    status: RuleState
    reason: str | None = None
    title: str | None = None  # what it looks for, in a few words


@dataclass(frozen=True, kw_only=True)
class OnAGpu(_Record):
    """What would land on the CPU on a GPU machine, by replaying the placer."""

    assumed: str
    findings: tuple[Finding, ...]
    unexplained: Unexplained
    program_differs: tuple[str, ...] = ()  # where the program may take another path there
    replayed: int | None = None  # ops whose placement was replayed
    not_replayed: int | None = None  # ops of which the capture holds no node


@dataclass(frozen=True, kw_only=True)
class StepKinds(_Record):
    """How many steps are of each kind; ``partial`` are those that the recording cut."""

    regular: int
    warm_up: int
    outlier: int
    partial: int


@dataclass(frozen=True, kw_only=True)
class StepPhases(_Record):
    """What each step of a device went to; of several devices, of the one that computed least.

    ``device`` is None for the program's own thread, told of where no device ran kernels. ``steps``
    has a column for each phase that occurs (`traceanalyzer.timeline.phase`): they add up to the
    step, but for what lies before the device's first event or after its last.
    """

    host: str
    device: str | None
    steps: Table  # step, kind, duration_us, and by phase: compute_us, host_op_us, ...


@dataclass(frozen=True, kw_only=True)
class Steps(_Record):
    """Where the steps come from and how long they took; the rows are in ``tables.steps``.

    ``count`` and ``kinds`` are of one host; the times are of the regular steps of all hosts.
    ``times`` has that host's steps where there are more than ``tables.steps`` holds.
    """

    source: StepSource
    note: str | None = None
    count: int | None = None
    median_us: float | None = None
    p95_us: float | None = None
    kinds: StepKinds | None = None
    times: PackedTable | None = None  # step, kind, duration_us
    phases: StepPhases | None = None


@dataclass(frozen=True, kw_only=True)
class PhaseTime(_Record):
    """What a phase took of the regular steps, per step. Phases add up to the whole."""

    phase: str  # of `traceanalyzer.timeline.phase`, in lower case
    us: float
    share: float


@dataclass(frozen=True, kw_only=True)
class DeviceTimeline(_Record):
    """Where the time of one device went, per regular step.

    ``device`` is None for the program's own thread, told of where no device ran kernels. The phases
    add up to ``us_per_step``: an idle device is in the phase of what it waited for.
    """

    host: str
    device: str | None
    steps: int | None  # None where nothing tells of steps: the whole recording then counts as one
    us_per_step: float
    phases: tuple[PhaseTime, ...]
    overlap_share: float | None = None  # of the time of host ops and copies, under some kernel


@dataclass(frozen=True, kw_only=True)
class Timeline(_Record):
    """Where the time of the devices went, and how unlike they are.

    ``busiest_share`` and ``idlest_share`` are the largest and the least share of its steps in which
    a device computed; None for fewer than two devices.
    """

    devices: tuple[DeviceTimeline, ...]
    busiest_share: float | None = None
    idlest_share: float | None = None
    shift_us: float = 0.0  # the most that was added to a device's times: nothing begins unlaunched


@dataclass(frozen=True, kw_only=True)
class PathOp(_Record):
    """An op on the critical path: as op of the host, kernel, copy or launch."""

    op_id: str
    name: str
    type: str
    placement: str
    us_per_step: float
    share: float


@dataclass(frozen=True, kw_only=True)
class CriticalPath(_Record):
    """What each moment of a host's regular steps waited for, back from their ends; per step."""

    host: str
    steps: int
    us_per_step: float
    proved_share: float  # of it, what is attributed by a walk whose every step is in the trace
    phases: tuple[PhaseTime, ...]
    ops: tuple[PathOp, ...]  # the longest first
    ops_total: int | None = None


@dataclass(frozen=True, kw_only=True)
class CopyNode(_Record):
    """An end of a copy: an op, or a device where the op is not known (``host``, ``gpu:0``)."""

    op_id: str
    label: str
    placement: str


@dataclass(frozen=True, kw_only=True)
class DeviceCopies(_Record):
    """All copies of one direction between two devices. ``bytes`` is None where unknown."""

    source: str
    target: str
    direction: Direction
    bytes: int | None
    count: int
    total_us: float | None
    exposed_us: float | None = None  # a device idled because of them
    hidden_us: float | None = None  # of their time, while a kernel of their device ran
    bytes_per_s: float | None = None  # of those whose size and time are known
    link_bytes_per_s: float | None = None  # what could be had
    link_source: LinkSource | None = None
    pageable_count: int | None = None
    pageable_bytes: int | None = None
    pinned_count: int | None = None
    pinned_bytes: int | None = None
    async_count: int | None = None
    sync_count: int | None = None


@dataclass(frozen=True, kw_only=True)
class CopyEdge(DeviceCopies):
    """All copies of one direction between two nodes."""


@dataclass(frozen=True, kw_only=True)
class StormEdge(_Record):
    """An edge of the copy graph, and how many copies of a storm are on it."""

    source: str
    target: str
    count: int


@dataclass(frozen=True, kw_only=True)
class CopyStorm(_Record):
    """Many small copies a step: what it takes to set them off is far more than what they carry."""

    source: str
    target: str
    direction: Direction
    count: int
    count_per_step: float | None
    bytes_each: float
    each_us: float
    total_us: float
    carrying_us: float | None  # what their bytes alone would take on their link
    edges: tuple[StormEdge, ...]
    edges_total: int


@dataclass(frozen=True, kw_only=True)
class ReadBack(_Record):
    """A scalar that is copied to the host each step, and who takes it.

    ``source`` is a node of the copy graph. ``wait_us`` is from the request of a copy to its end,
    ``idle_us`` how long the device had nothing to do right after one. Times are totals of the run.
    """

    host: str
    device: str | None
    reader: Reader
    certainty: Certainty
    source: str
    source_name: str | None
    consumer_name: str | None
    count: int
    count_per_step: float | None
    bytes_each: float | None
    total_us: float | None
    wait_us: float | None
    idle_us: float | None


@dataclass(frozen=True, kw_only=True)
class CopyGroup(_Record):
    """Ops at one end of copies that are told of as one: of a name scope or of a type.

    ``kind`` is ``op`` for a single op, ``memory`` for the copies of a memory of which no op is
    known, ``others`` for the small ones of a side that has too many. ``node`` is the node of the
    copy graph in it that has most copies, ``name`` what it is called.
    """

    kind: Literal["op", "scope", "type", "memory", "others"]
    label: str
    ops: int
    node: str
    name: str
    islands: tuple[int, ...] = ()  # numbers, from 1, of those of ``islands`` that have ops in it


@dataclass(frozen=True, kw_only=True)
class GroupCopies(_Record):
    """All copies of one direction from a group of ops to another, between two memories.

    ``source`` and ``target`` are indices into ``sources`` and ``targets``. ``bytes`` are of those
    whose size is known, None where none is.
    """

    source: int
    target: int
    source_memory: str
    target_memory: str
    direction: Direction
    bytes: int | None
    unknown_bytes: int  # copies whose size is not known
    count: int
    total_us: float | None
    exposed_us: float | None


@dataclass(frozen=True, kw_only=True)
class CopyGroups(_Record):
    """All copies by groups of ops, those that copy and those that take; each is in one flow."""

    sources: tuple[CopyGroup, ...]
    targets: tuple[CopyGroup, ...]
    flows: tuple[GroupCopies, ...]


@dataclass(frozen=True, kw_only=True)
class CopyGraph(_Record):
    """Who copied what to whom: by op, and by device."""

    nodes: tuple[CopyNode, ...]
    edges: tuple[CopyEdge, ...]
    devices: tuple[DeviceCopies, ...]
    edges_total: int | None = None  # how many edges there are where ``edges`` was cut
    storms: tuple[CopyStorm, ...] = ()
    read_backs: tuple[ReadBack, ...] = ()
    read_backs_total: int | None = None  # how many there are where ``read_backs`` was cut
    groups: CopyGroups | None = None


@dataclass(frozen=True, kw_only=True)
class IslandCopies(_Record):
    """The copies one way between an island and devices; ``count`` is None where not recorded."""

    count: int | None
    bytes: int | None
    total_us: float | None
    exposed_us: float | None


@dataclass(frozen=True, kw_only=True)
class MovedOp(_Record):
    """An op to move; without an ``op_id`` if the trace has no event of it."""

    op_id: str | None
    name: str
    type: str


@dataclass(frozen=True, kw_only=True)
class IslandMove(_Record):
    """The ops to move, either way, so that least is copied about an island.

    What is saved and what stays is in bytes or, where no size is known, in copying time; over the
    whole trace, and without the values whose cost is not known.
    """

    to_gpu: tuple[MovedOp, ...]
    to_cpu: tuple[MovedOp, ...]
    saved_bytes: int | None
    stays_bytes: int | None
    saved_us: float | None
    stays_us: float | None
    unknown_before: int  # values of unknown cost that are copied now
    unknown_after: int  # those that still would be


@dataclass(frozen=True, kw_only=True)
class Island(_Record):
    """Ops on the CPU that values come to from a device and leave for it again."""

    host: str
    function: str | None
    certainty: Certainty
    ops: tuple[OpRef, ...]
    ops_total: int
    unseen: tuple[str, ...] = ()  # nodes on the way of which the trace has no event
    between: tuple[OpRef, ...] = ()  # ops that may be on the way
    arriving: IslandCopies
    leaving: IslandCopies
    move: IslandMove | None = None
    is_weighed: bool = True  # whether the cheapest move was looked for: not about too many ops


@dataclass(frozen=True, kw_only=True)
class MemoryHolder(_Record):
    """Blocks of memory that were allocated for one op, of one type and shape."""

    op_id: str | None
    op: str | None  # None where the trace names none
    type: str | None  # of the op
    file: str | None = None
    line: int | None = None
    region_type: str | None  # "output", "temp", "persist", "dynamic"
    data_type: str | None
    shape: str | None
    bytes: int
    count: int  # blocks


@dataclass(frozen=True, kw_only=True)
class MemoryPeak(_Record):
    """The moment at which an allocator had most in use; the parts add up to ``bytes``.

    ``before_bytes`` were allocated before the trace began, ``reserved_bytes`` are kept back by the
    allocator itself, ``unaccounted_bytes`` do not add up because records are lost: more than 0
    where those are of allocations.
    """

    at_us: float
    bytes: int
    share: float | None  # of the limit
    named_bytes: int
    unnamed_bytes: int
    before_bytes: int
    reserved_bytes: int
    unaccounted_bytes: int
    rounding_bytes: int | None  # in blocks, beyond what was asked for
    available_bytes: int | None
    fragmentation_share: float | None  # of its free memory, what was not in the largest free piece
    holders: tuple[MemoryHolder, ...]
    holders_total: int | None = None  # how many there are where ``holders`` was cut


@dataclass(frozen=True, kw_only=True)
class MemoryGrowth(_Record):
    """More was in use at the end of each step than at the end of the one before."""

    steps: int
    first_bytes: int  # at the end of the first of them
    last_bytes: int
    bytes_per_step: int  # the median
    holders: tuple[MemoryHolder, ...]  # what the last step has more than the first
    holders_total: int | None = None


@dataclass(frozen=True, kw_only=True)
class AllocatorMemory(_Record):
    """What one allocator of a host had in use."""

    host: str
    allocator: str
    kind: MemoryKind
    device: str | None  # whose memory it is: "gpu:0"
    records: int
    limit_bytes: int | None
    highest_bytes: int | None  # the most it ever had in use, before the trace too
    peak: MemoryPeak | None
    timeline: Table  # at_us, bytes: at most 1000 records, all peaks among them
    steps: Table  # step, start_us, peak_bytes, end_bytes
    growth: MemoryGrowth | None = None


@dataclass(frozen=True, kw_only=True)
class Memory(_Record):
    """What TensorFlow's allocators had in use; ``remarks`` say what needs attention."""

    remarks: tuple[str, ...]
    allocators: tuple[AllocatorMemory, ...]
    allocators_total: int | None = None  # how many there are where ``allocators`` was cut


@dataclass(frozen=True, kw_only=True)
class Belief(_Record):
    """Something that is often believed to move ops to the CPU, and what it did in this run."""

    id: str  # "memory", "other_processes", "transfer_cost", "float64", "gpu_allocator"
    question: str
    answer: str  # with the run's figures


@dataclass(frozen=True, kw_only=True)
class Table(_Record):
    """A table, cut or aggregated for reading; ``total_rows`` counts what it was cut from."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    total_rows: int

    def __post_init__(self) -> None:
        """Settles each cell under its column's name, so that units hold in tables too."""
        columns = tuple(self.columns)
        object.__setattr__(self, "columns", columns)
        rows = tuple(
            tuple(_settled(name, cell) for name, cell in zip(columns, tuple(row), strict=True))
            for row in self.rows
        )
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "total_rows", int(self.total_rows))

    def records(self) -> list[dict[str, Cell]]:
        """Returns the rows as dicts, column by column."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


@dataclass(frozen=True, kw_only=True)
class PackedTable(_Record):
    """A table of more rows than can be read one by one; ``report/packed.py`` writes and opens it.

    ``rows`` of ``total_rows`` are in it.
    """

    columns: tuple[str, ...]
    rows: int
    total_rows: int
    data: str  # base64 of what `traceanalyzer.report.packed` describes


@dataclass(frozen=True, kw_only=True)
class EventLane(_Record):
    """A row of the picture of what happened when: steps, a device's stream, or a thread.

    ``begin_us`` is where the line's own clock begins, from the run's first event: a place in the
    trace (`TraceWhere`) counts from there. For a stream it holds what devices' times were moved by.
    """

    host: str
    name: str
    kind: LaneKind
    device: str | None = None
    plane: str | None = None
    is_program: bool = False  # the program's own thread
    rows: int  # of the packed events
    events_total: int  # before short ones were put together
    busy_us: float  # no moment counted twice, waiting left out
    begin_us: float | None = None


@dataclass(frozen=True, kw_only=True)
class IdleGap(_Record):
    """A stretch in which a device ran nothing; without one, in which the program waited.

    ``phase`` is what most of it was waited for and ``phase_us`` how much that is, ``op_id`` the op
    that took most of that and ``op_us`` how much; None where no op took a tenth of the gap.
    """

    host: str
    device: str | None
    start_us: float  # from the run's first event
    duration_us: float
    step: str | None
    phase: str | None
    phase_us: float | None
    op_id: str | None
    op: str | None
    finding_id: str | None
    before: str | None  # what ran before, and after
    after: str | None
    op_us: float | None = None


@dataclass(frozen=True, kw_only=True)
class EventTimeline(_Record):
    """What happened when, by lane: events in columns, the short ones put together where many.

    ``names`` has a row for each thing that an event can be: ``name``, ``kind``, ``op_id``,
    ``op`` (that op's name), ``finding_id``. ``events`` has a row for each event, lane by lane as
    ``lanes`` says, by start: ``gap`` from the end of the one before on its lane (of the first: from
    0) and ``duration``, both in units of ``unit_ns`` from the run's first event; ``what``, a row of
    ``names``; ``count``, how many events it stands for.
    """

    unit_ns: int
    end_us: float
    lanes: tuple[EventLane, ...]
    lanes_total: int
    names: PackedTable
    events: PackedTable
    events_total: int  # of the lanes shown, before short ones were put together
    merged_total: int  # how many of them stand together with others
    merged_below_us: float | None  # what is shorter may stand together with others
    gaps: tuple[IdleGap, ...]
    gaps_total: int


@dataclass(frozen=True, kw_only=True)
class Scopes(_Record):
    """Time by name scope, over the whole recording: the tree that the names of ops make.

    A row of ``nodes`` names the row of the node above it (``parent``), which comes before it. Times
    are of all that is below: ``cpu_us`` on host threads by ops on the CPU, ``device_us`` in
    kernels, ``launch_us`` on host threads by ops on devices. ``total_rows`` counts the nodes of the
    whole tree: those left out of a node are one of kind "others".
    """

    nodes: Table  # parent, name, kind ("scope", "op", "function", "group", "others"), times, ops


@dataclass(frozen=True, kw_only=True)
class InputCure(_Record):
    """A change to an input pipeline. Of several each is an alternative: gains do not add up."""

    kind: str  # "parallel", "prefetch", "vectorise", "cache", "generator", "read_in_parallel"
    text: str
    code: str
    gain_us_per_step: Gain


@dataclass(frozen=True, kw_only=True)
class InputHost(_Record):
    """How one host's steps waited for input; figures are of the regular steps, per step."""

    host: str
    verdict: InputVerdict
    reason: str | None  # why the verdict is unknown
    steps_count: int
    wait_mean_us: float | None
    wait_median_us: float | None
    wait_share: float | None  # of the steps' time
    other_us: float | None  # what a step takes without the wait
    slow_stage: str | None  # the stage that bounds the rate, by its path
    slow_us: float | None  # its work per step
    slow_wait_share: float | None  # share of the wait during which it was at work
    startup_us: float | None  # the longest first request of an iterator
    shuffle_fill_us: float | None  # where that is most of it
    shuffle_fill_count: int | None


@dataclass(frozen=True, kw_only=True)
class InputPipeline(_Record):
    """Whether the run's input pipelines (tf.data) keep up with its steps, and what helps."""

    verdict: InputVerdict
    text: str
    host: str  # the one whose steps wait longest; verdict, text and cures are of it
    cures: tuple[InputCure, ...]  # the best first
    hosts: tuple[InputHost, ...]
    stages: Table
    waits: Table  # one row a step


@dataclass(frozen=True, kw_only=True)
class Tables(_Record):
    """The tables of the run.

    ``ops`` holds the dearest CPU-placed rows and the dearest of the others, so that both can be
    shown in full from one table. ``all_ops`` holds every op there is room for, in the columns that
    `traceanalyzer.report.ops.all_ops` names.
    """

    ops: Table
    copies: Table
    steps: Table
    kernels: Table
    all_ops: PackedTable | None = None


@dataclass(frozen=True, kw_only=True)
class Report(_Record):
    """The whole document."""

    schema_version: int = SCHEMA_VERSION
    tool: ToolInfo
    run: RunInfo
    health: tuple[Health, ...]
    summary: Summary
    findings: tuple[Finding, ...]
    unexplained: Unexplained
    rules: tuple[RuleStatus, ...]
    on_a_gpu: OnAGpu | None = None
    steps: Steps | None = None
    timeline: Timeline | None = None
    scopes: Scopes | None = None
    critical_path: tuple[CriticalPath, ...] = ()
    copy_graph: CopyGraph | None = None
    islands: tuple[Island, ...] = ()
    islands_total: int | None = None  # how many there are where ``islands`` was cut
    memory: Memory | None = None
    input_pipeline: InputPipeline | None = None
    beliefs: tuple[Belief, ...] = ()
    trace: EventTimeline | None = None  # what happened when
    tables: Tables
