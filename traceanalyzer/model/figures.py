"""Records of a run's steps, times, transfers, memory use, and input pipelines."""

from typing import Literal, TypeAlias

from traceanalyzer.model._record import (
    Certainty,
    Count,
    DataTable,
    Direction,
    Gain,
    OpRef,
    PackedTable,
    Rate,
    Record,
    Share,
    Us,
)

LaneKind: TypeAlias = Literal["steps", "stream", "copies", "thread"]
StepSource: TypeAlias = Literal["markers", "inferred", "missing"]
# Source of a link's rate: the bus, the device's memory, or the fastest copies in the trace.
LinkSource: TypeAlias = Literal["pcie", "memory", "seen"]
Reader: TypeAlias = Literal["python", "predicate", "host_argument", "cpu_op", "unknown"]
MemoryKind: TypeAlias = Literal["device", "pinned_host", "host", "unknown"]
InputVerdict: TypeAlias = Literal["keeps_up", "too_slow", "unknown"]


# --- steps and time --------------------------------------------------------------------------


class StepKinds(Record):
    """The number of steps of each kind. A ``partial`` step was not fully recorded."""

    regular: Count
    warm_up: Count
    outlier: Count
    partial: Count


class Steps(Record):
    """The number, duration, and source of the steps. ``tables.steps`` has one row per step."""

    source: StepSource
    note: str | None = None
    count: Count | None = None  # of one host; so are ``kinds``
    median_us: Us | None = None  # of the regular steps of all hosts; so is ``p95_us``
    p95_us: Us | None = None
    kinds: StepKinds | None = None


StepPart: TypeAlias = Literal[
    "compute", "transfer", "cpu_op", "unplaced", "input", "preparation", "launch", "runtime",
    "program", "other_device", "unknown",
]  # fmt: skip


class PhaseTime(Record):
    """The time that a regular step spends in one phase. All phases add up to its duration."""

    phase: StepPart  # see `traceanalyzer.report.steps`
    us: Us
    share: Share
    #: The least and the most that it can be; None where the trace leaves nothing open.
    low_us: Us | None = None
    high_us: Us | None = None


class DeviceTimeline(Record):
    """The time that one device spent in each phase of a regular step.

    Idle time belongs to the phase that the device waited for.
    """

    host: str
    device: str | None  # None for the program's own thread, if no device ran kernels
    steps: Count | None  # None if unknown: the whole recording then counts as one
    us_per_step: Us
    phases: tuple[PhaseTime, ...]
    overlap_share: Share | None = None  # of host op and copy time: the part during a kernel


class DeviceTimes(Record):
    """The time that each device spent in each phase."""

    devices: tuple[DeviceTimeline, ...]
    shift_us: Us = 0.0  # largest shift of a device's times, so that launches precede kernels


class EventLane(Record):
    """A row of the timeline: steps, a device's stream, or a thread."""

    host: str
    name: str
    kind: LaneKind
    device: str | None = None
    is_program: bool = False  # the program's own thread
    rows: Count  # of the packed events
    events_total: Count  # before short ones were merged


class EventTimeline(Record):
    """All events by lane. If there are too many, short events are merged.

    Columns of ``names``: ``name``, ``kind``, ``op_id``, and ``op``, the op's name. Columns of
    ``events``, sorted by lane and start: ``gap`` since the end of the lane's previous event (or
    since 0) and ``duration``, both in units of ``unit_ns``; ``what``, a row of ``names``; and
    ``count``, the number of merged events.
    """

    unit_ns: Count
    lanes: tuple[EventLane, ...]
    lanes_total: Count
    names: PackedTable
    events: PackedTable
    events_total: Count  # of the lanes shown, before short ones were merged
    merged_total: Count  # number of these that are merged
    merged_below_us: Us | None  # only shorter ones are merged


# --- transfers -------------------------------------------------------------------------------


class TransferNode(Record):
    """One end of a copy: an op, or a device (``host``, ``gpu:0``) if the op is unknown."""

    op_id: str
    label: str
    placement: str


class TransferEdge(Record):
    """All copies in one direction between two nodes, or between two devices."""

    source: str
    target: str
    direction: Direction
    bytes: Count | None
    count: Count
    total_us: Us | None
    exposed_us: Us | None = None  # idle time of devices because of them
    hidden_us: Us | None = None  # while a kernel of their device ran
    bytes_per_s: Rate | None = None  # of the copies of known size and time
    link_bytes_per_s: Rate | None = None  # the link's rate
    link_source: LinkSource | None = None
    pageable_count: Count | None = None
    pageable_bytes: Count | None = None
    pinned_count: Count | None = None
    pinned_bytes: Count | None = None
    async_count: Count | None = None
    sync_count: Count | None = None


class SmallTransfersEdge(Record):
    """The number of small copies from one node of the copy graph to another."""

    source: str
    target: str
    count: Count


class SmallTransfersRecord(Record):
    """Frequent small copies whose fixed cost far exceeds the cost of moving their bytes."""

    source: str
    target: str
    direction: Direction
    count: Count
    count_per_step: Rate | None
    bytes_each: Rate
    each_us: Us
    total_us: Us
    carrying_us: Us | None  # time of the bytes alone on their link
    edges: tuple[SmallTransfersEdge, ...]
    edges_total: Count


class DeviceToHostSyncRecord(Record):
    """A scalar that is copied to the host in each step. Times are totals over the run."""

    host: str
    device: str | None
    reader: Reader
    certainty: Certainty
    source: str  # a node of the copy graph
    source_name: str | None
    consumer_name: str | None
    count: Count
    count_per_step: Rate | None
    bytes_each: Rate | None
    total_us: Us | None
    wait_us: Us | None  # from the request of a copy to its end
    idle_us: Us | None  # of the device, right after a copy


class TransferGraph(Record):
    """Copies between ops, and between devices."""

    nodes: tuple[TransferNode, ...]
    edges: tuple[TransferEdge, ...]
    devices: tuple[TransferEdge, ...]
    edges_total: Count | None = None  # before ``edges`` was cut
    small_transfers: tuple[SmallTransfersRecord, ...] = ()
    device_to_host_syncs: tuple[DeviceToHostSyncRecord, ...] = ()
    device_to_host_syncs_total: Count | None = None  # before ``device_to_host_syncs`` was cut


class RoundTripTransfers(Record):
    """A round trip's copies in one direction, either to its CPU ops or from them."""

    count: Count | None
    bytes: Count | None
    total_us: Us | None
    exposed_us: Us | None


class RoundTripRecord(Record):
    """A round trip: CPU ops that take values from a device and return values to it."""

    host: str
    function: str | None
    certainty: Certainty
    ops: tuple[OpRef, ...]
    ops_total: Count
    unseen: tuple[str, ...] = ()  # nodes without an event in the trace
    arriving: RoundTripTransfers
    leaving: RoundTripTransfers
    cannot_move: tuple[str, ...] = ()  # names of its ops that cannot run on a GPU


# --- memory ----------------------------------------------------------------------------------


class MemoryHolder(Record):
    """Memory blocks of one type and shape, allocated for one op."""

    op_id: str | None
    op: str | None  # None if the trace names none
    type: str | None  # of the op
    file: str | None = None
    line: int | None = None
    region_type: str | None  # "output", "temp", "persist", "dynamic"
    data_type: str | None
    shape: str | None
    bytes: Count
    count: Count  # blocks


class MemoryPeak(Record):
    """The peak memory use of an allocator. Its parts add up to ``bytes``."""

    at_us: Us
    bytes: Count
    share: Share | None  # of the limit
    named_bytes: Count
    unnamed_bytes: Count
    before_bytes: Count  # allocated before the trace began
    reserved_bytes: Count  # kept back by the allocator
    unaccounted_bytes: int  # from lost records; above 0: of allocations
    rounding_bytes: Count | None  # bytes by which blocks exceed the requested sizes
    available_bytes: Count | None
    fragmentation_share: Share | None  # of free memory, outside the largest free block
    holders: tuple[MemoryHolder, ...]
    holders_total: Count | None = None  # before ``holders`` was cut


class AllocatorMemory(Record):
    """The memory use of one allocator on a host."""

    host: str
    allocator: str
    kind: MemoryKind
    device: str | None  # whose memory it is: "gpu:0"
    records: Count
    limit_bytes: Count | None
    highest_bytes: Count | None  # highest use ever, also before the trace
    peak: MemoryPeak | None
    timeline: DataTable  # at_us, bytes: at most 1000 records, all peaks among them
    steps: DataTable  # step, start_us, peak_bytes, end_bytes


class Memory(Record):
    """The memory use of TensorFlow's allocators."""

    remarks: tuple[str, ...]  # problems to look at
    allocators: tuple[AllocatorMemory, ...]
    allocators_total: Count | None = None  # before ``allocators`` was cut


# --- input pipelines -------------------------------------------------------------------------


class InputFixRecord(Record):
    """A change to an input pipeline. The gains of several changes do not add up."""

    kind: str  # "parallel", "prefetch", "vectorise", "cache", "generator", "read_in_parallel"
    text: str
    code: str
    gain_us_per_step: Gain


class InputHost(Record):
    """How long one host's regular steps wait for input, and the stage that limits the rate."""

    host: str
    verdict: InputVerdict
    reason: str | None  # why the verdict is unknown
    wait_mean_us: Us | None
    wait_share: Share | None  # of the steps' time
    slow_stage: str | None  # the stage that bounds the rate, by its path
    slow_us: Us | None  # its work per step


class InputPipeline(Record):
    """The verdict on the run's input pipelines (tf.data), and fixes for slow ones."""

    verdict: InputVerdict
    text: str
    host: str  # the host whose steps wait longest; verdict, text and fixes describe it
    fixes: tuple[InputFixRecord, ...]  # the best first
    hosts: tuple[InputHost, ...]
    stages: DataTable
    waits: DataTable  # one row a step
