"""Memory in use, and whether the input pipeline keeps up."""

from typing import Literal, TypeAlias

from traceanalyzer.model._record import Count, Gain, Record, Share, Table, Us

MemoryKind: TypeAlias = Literal["device", "pinned_host", "host", "unknown"]
InputVerdict: TypeAlias = Literal["keeps_up", "too_slow", "unknown"]


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
    """The moment at which an allocator had the most in use; the parts add up to ``bytes``."""

    at_us: Us
    bytes: Count
    share: Share | None  # of the limit
    named_bytes: Count
    unnamed_bytes: Count
    before_bytes: Count  # allocated before the trace began
    reserved_bytes: Count  # kept back by the allocator
    unaccounted_bytes: int  # lost records: of allocations if positive
    rounding_bytes: Count | None  # by which blocks are larger than requested
    available_bytes: Count | None
    fragmentation_share: Share | None  # of free memory, outside the largest free block
    holders: tuple[MemoryHolder, ...]
    holders_total: Count | None = None  # before ``holders`` was cut


class MemoryGrowth(Record):
    """More was in use at the end of each step than at the end of the one before."""

    steps: Count
    first_bytes: Count  # at the end of the first step
    last_bytes: Count
    bytes_per_step: int  # the median
    holders: tuple[MemoryHolder, ...]  # in the last step, beyond the first
    holders_total: Count | None = None


class AllocatorMemory(Record):
    """What one allocator of a host had in use."""

    host: str
    allocator: str
    kind: MemoryKind
    device: str | None  # whose memory it is: "gpu:0"
    records: Count
    limit_bytes: Count | None
    highest_bytes: Count | None  # most in use ever, also before the trace
    peak: MemoryPeak | None
    timeline: Table  # at_us, bytes: at most 1000 records, all peaks among them
    steps: Table  # step, start_us, peak_bytes, end_bytes
    growth: MemoryGrowth | None = None


class Memory(Record):
    """What TensorFlow's allocators had in use."""

    remarks: tuple[str, ...]  # what needs attention
    allocators: tuple[AllocatorMemory, ...]
    allocators_total: Count | None = None  # before ``allocators`` was cut


class InputFixRecord(Record):
    """A change to an input pipeline. Several are alternatives: their gains do not add up."""

    kind: str  # "parallel", "prefetch", "vectorise", "cache", "generator", "read_in_parallel"
    text: str
    code: str
    gain_us_per_step: Gain


class InputHost(Record):
    """How one host's steps waited for input, per regular step."""

    host: str
    verdict: InputVerdict
    reason: str | None  # why the verdict is unknown
    steps_count: Count
    wait_mean_us: Us | None
    wait_median_us: Us | None
    wait_share: Share | None  # of the steps' time
    other_us: Us | None  # of a step, without the wait
    slow_stage: str | None  # the stage that bounds the rate, by its path
    slow_us: Us | None  # its work per step
    slow_wait_share: Share | None  # of the wait, while the stage worked
    startup_us: Us | None  # the longest first request of an iterator
    shuffle_fill_us: Us | None  # if that is most of it
    shuffle_fill_count: Count | None


class InputPipeline(Record):
    """Whether the run's input pipelines (tf.data) keep up with its steps, and what helps."""

    verdict: InputVerdict
    text: str
    host: str  # whose steps wait longest; verdict, text and fixes are about it
    fixes: tuple[InputFixRecord, ...]  # the best first
    hosts: tuple[InputHost, ...]
    stages: Table
    waits: Table  # one row a step
