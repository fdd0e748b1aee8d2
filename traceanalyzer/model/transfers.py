"""Copies between ops and devices, and the round trips they make."""

from typing import Literal, TypeAlias

from traceanalyzer.model._record import Certainty, Count, Direction, OpRef, Rate, Record, Us

# Whose rate a link's is: of the bus, of the device's memory, or the best that copies reached.
LinkSource: TypeAlias = Literal["pcie", "memory", "seen"]
Reader: TypeAlias = Literal["python", "predicate", "host_argument", "cpu_op", "unknown"]


class TransferNode(Record):
    """An end of a copy: an op, or a device if the op is unknown (``host``, ``gpu:0``)."""

    op_id: str
    label: str
    placement: str


class DeviceTransfers(Record):
    """All copies of one direction between two devices."""

    source: str
    target: str
    direction: Direction
    bytes: Count | None
    count: Count
    total_us: Us | None
    exposed_us: Us | None = None  # a device idled because of them
    hidden_us: Us | None = None  # while a kernel of their device ran
    bytes_per_s: Rate | None = None  # of those whose size and time are known
    link_bytes_per_s: Rate | None = None  # what the link can carry
    link_source: LinkSource | None = None
    pageable_count: Count | None = None
    pageable_bytes: Count | None = None
    pinned_count: Count | None = None
    pinned_bytes: Count | None = None
    async_count: Count | None = None
    sync_count: Count | None = None


class TransferEdge(DeviceTransfers):
    """All copies of one direction between two nodes."""


class SmallTransfersEdge(Record):
    """Small copies along an edge of the copy graph."""

    source: str
    target: str
    count: Count


class SmallTransfersRecord(Record):
    """Many small copies per step, whose fixed cost is far above that of their bytes."""

    source: str
    target: str
    direction: Direction
    count: Count
    count_per_step: Rate | None
    bytes_each: Rate
    each_us: Us
    total_us: Us
    carrying_us: Us | None  # what the bytes alone would take on their link
    edges: tuple[SmallTransfersEdge, ...]
    edges_total: Count


class DeviceToHostSyncRecord(Record):
    """A scalar that is copied to the host each step. Times are totals of the run."""

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
    """Who copied what to whom: by op, and by device."""

    nodes: tuple[TransferNode, ...]
    edges: tuple[TransferEdge, ...]
    devices: tuple[DeviceTransfers, ...]
    edges_total: Count | None = None  # before ``edges`` was cut
    small_transfers: tuple[SmallTransfersRecord, ...] = ()
    device_to_host_syncs: tuple[DeviceToHostSyncRecord, ...] = ()
    device_to_host_syncs_total: Count | None = None  # before ``device_to_host_syncs`` was cut


class RoundTripTransfers(Record):
    """The copies in one direction between an island and devices."""

    count: Count | None
    bytes: Count | None
    total_us: Us | None
    exposed_us: Us | None


class MovedOp(Record):
    """An op to move; without an ``op_id`` if the trace has no event of it."""

    op_id: str | None
    name: str
    type: str


class RoundTripMove(Record):
    """The ops to move, in either direction, so that an island copies least.

    Figures are of the whole trace, in bytes or, if no size is known, in copying time. They leave
    out values of unknown cost.
    """

    to_gpu: tuple[MovedOp, ...]
    to_cpu: tuple[MovedOp, ...]
    saved_bytes: Count | None
    stays_bytes: Count | None
    saved_us: Us | None
    stays_us: Us | None
    unknown_before: Count  # values of unknown cost that are copied now
    unknown_after: Count  # that would still be copied


class RoundTripRecord(Record):
    """A round trip: ops on the CPU that take values from a device and return some to it."""

    host: str
    function: str | None
    certainty: Certainty
    ops: tuple[OpRef, ...]
    ops_total: Count
    unseen: tuple[str, ...] = ()  # nodes without an event in the trace
    between: tuple[OpRef, ...] = ()  # ops that may belong to it
    arriving: RoundTripTransfers
    leaving: RoundTripTransfers
    move: RoundTripMove | None = None
    is_weighed: bool = True  # False for too many ops to search for the cheapest move
