"""The report that the page, JSON, and terminal show.

Its fields are those of ``report.json``, schema version 2. Names contain the unit: ``_us`` for
microseconds with three decimals, ``_share`` for a fraction between 0 and 1, ``bytes`` for bytes.
``None`` means unknown, never zero.
"""

from typing import Final, Literal, Self, TypeAlias

from traceanalyzer.model._record import Cell as Cell
from traceanalyzer.model._record import Certainty as Certainty
from traceanalyzer.model._record import Count, Record, Share, Us
from traceanalyzer.model._record import DataTable as DataTable
from traceanalyzer.model._record import Direction as Direction
from traceanalyzer.model._record import Gain as Gain
from traceanalyzer.model._record import OpRef as OpRef
from traceanalyzer.model._record import PackedTable as PackedTable
from traceanalyzer.model.blocks import Page
from traceanalyzer.model.changes import Change
from traceanalyzer.model.figures import (
    DeviceTimes,
    InputPipeline,
    Memory,
    RoundTripRecord,
    Steps,
    TransferGraph,
)

SCHEMA_VERSION: Final = 2

Harm: TypeAlias = Literal["harmful", "harmless", "by_design"]
Severity: TypeAlias = Literal["info", "warning", "error"]
RuleState: TypeAlias = Literal["fired", "silent", "not_applicable", "failed"]


class ToolInfo(Record):
    """The tool that made the report."""

    name: str = "traceanalyzer"
    version: str


class TfVersion(Record):
    """TensorFlow's version and its source."""

    value: str | None
    source: str | None  # "capture file", "trace", ...; None if unknown


class DeviceInfo(Record):
    """A device of the run and how busy it was."""

    name: str
    kind: str  # "cpu", "gpu", "tpu", ...
    model: str | None = None
    kernels: Count | None = None
    busy_us: Us | None = None
    busy_share: Share | None = None  # of the run's duration


class RunInfo(Record):
    """The profiled run."""

    name: str
    path_name: str  # the last part of the path; reports do not reveal folders
    hosts: tuple[str, ...]
    tf_version: TfVersion
    duration_us: Us | None
    steps: Count | None
    devices: tuple[DeviceInfo, ...]
    command: str | None = None  # the command that captured the run or reports a trace
    recorded_at: str | None = None  # when the recording began, in UTC: 2026-01-31 12:00:00
    host_tracer_level: int | None = None  # None if unknown


class Health(Record):
    """A limit of this trace that readers must know about."""

    id: str
    severity: Severity
    message: str

    @property
    def is_capture_unused(self) -> bool:
        """Whether there is a capture file, but the report had to do without it."""
        return self.id in {"capture_file_foreign", "capture_file_unreadable"}


class ExplainedShares(Record):
    """Shares of ``cpu_op_us`` whose cause is known, by certainty."""

    certain: Share | None
    likely: Share | None
    possible: Share | None


class StepTime(Record):
    """The median and the 95th percentile of the step time."""

    median: Us | None
    p95: Us | None


class Summary(Record):
    """The summary of the run: one sentence, and the figures that it is based on."""

    verdict: str
    cpu_ops: Count
    cpu_op_us: Us
    explained: ExplainedShares
    explained_share: Share | None  # certain + likely; None if no GPU was visible
    step_us: StepTime | None
    exposed_us_per_step: Us | None


class Myth(Record):
    """A common but wrong explanation for ops on the CPU, refuted with the run's figures."""

    id: str  # "memory", "other_processes", "transfer_cost", "float64"
    question: str
    answer: str  # with the run's figures


class Where:
    """A place that evidence points to: in the trace, in the source, or in the capture file."""


class TraceWhere(Record, Where):
    """A place in the trace: an event, or a whole line if offset and duration are None."""

    host: str | None
    plane: str
    line: str | None
    offset_ps: int | None = None  # XEvent.offset_ps, from the start of its line
    duration_ps: int | None = None


class SourceWhere(Record, Where):
    """A line of the user's source."""

    file: str
    line: int | None
    source: str | None = None  # the text of that line


class CaptureFileWhere(Record, Where):
    """An entry of the capture file."""

    capture_file: str


class Evidence(Record):
    """One observed fact."""

    kind: str
    text: str
    where: Where | None = None  # None for facts outside the run, such as the registry


class BlockerRecord(Record):
    """One thing that keeps an op off the GPU."""

    cause: str
    certainty: Certainty
    sufficient: bool  # keeps the op off the GPU on its own
    evidence: tuple[Evidence, ...] = ()


class RuledOut(Record):
    """A cause that was considered and excluded."""

    cause: str
    because: str


class Cost(Record):
    """The time that CPU ops and their copies took, and the GPU's wait for them."""

    host_us: Us | None
    copy_us: Us | None
    copy_bytes: Count | None
    exposed_us_per_step: Us | None
    host_us_per_step: Us | None = None  # host time within the regular steps


class Fix(Record):
    """A change that removes a cause, or the advice to change nothing."""

    text: str
    title: str | None = None  # a few words; None if there is nothing to do
    condition: str | None = None  # when it helps; None: always
    code: str | None = None
    checked: bool = False  # with it, a replay of the placer puts the op on the GPU

    @classmethod
    def of(
        cls,
        title: str,
        more: str = "",
        *,
        condition: str | None = None,
        code: str | None = None,
        checked: bool = False,
    ) -> Self:
        """Return a fix whose text joins the condition (if any), the title, and `more`."""
        said = title if condition is None else f"If {condition}, {title[0].lower()}{title[1:]}"
        text = f"{said}. {more}".strip()
        return cls(text=text, title=title, condition=condition, code=code, checked=checked)


class FindingRecord(Record):
    """The reason why some ops ran on the CPU, with its evidence, cost, and fixes."""

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
    blockers: tuple[BlockerRecord, ...] = ()
    evidence: tuple[Evidence, ...]
    ruled_out: tuple[RuledOut, ...] = ()
    cost: Cost
    gain_us_per_step: Gain | None = None
    fixes: tuple[Fix, ...] = ()
    ops_total: Count | None = None  # before ``ops`` was cut


class UnexplainedOp(OpRef):
    """A CPU-placed op without a known cause."""

    occurrences: Count | None = None
    cost: Cost
    candidates: tuple[str, ...] = ()  # causes that are still possible


class Unexplained(Record):
    """The CPU-placed ops without a known cause."""

    cpu_op_us: Us
    ops: tuple[UnexplainedOp, ...]
    ops_total: Count | None = None  # before ``ops`` was cut


class RuleStatus(Record):
    """The outcome of checking the run for a cause, with the reason."""

    cause: str
    status: RuleState
    reason: str | None = None
    title: str | None = None  # the cause in a few words


class PredictionRecord(Record):
    """Ops that would run on the CPU of a machine with a GPU, predicted by a placer replay."""

    assumed: str
    findings: tuple[FindingRecord, ...]
    unexplained: Unexplained
    program_differs: tuple[str, ...] = ()  # reasons why the program may behave differently there
    replayed: Count | None = None  # number of ops
    not_replayed: Count | None = None  # ops whose node is not in the capture


class Tables(Record):
    """The tables of the run."""

    ops: DataTable  # the most expensive CPU-placed ops, and the most expensive others
    steps: DataTable


class Report(Record):
    """The root of the JSON report."""

    schema_version: Literal[2] = SCHEMA_VERSION
    tool: ToolInfo
    run: RunInfo
    health: tuple[Health, ...]
    summary: Summary
    findings: tuple[FindingRecord, ...]
    changes: tuple[Change, ...] = ()  # most saving first
    unexplained: Unexplained
    rules: tuple[RuleStatus, ...]
    on_a_gpu: PredictionRecord | None = None
    steps: Steps | None = None
    timeline: DeviceTimes | None = None
    transfer_graph: TransferGraph | None = None
    round_trips: tuple[RoundTripRecord, ...] = ()
    round_trips_total: Count | None = None  # before ``round_trips`` was cut
    memory: Memory | None = None
    input_pipeline: InputPipeline | None = None
    myths: tuple[Myth, ...] = ()
    page: Page | None = None  # the page that readers see
    tables: Tables
