"""What a rule is, and how its examples are written."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from traceanalyzer.evidence.captured_examples import captured
from traceanalyzer.run import Host, Run
from traceanalyzer.tables.host_tables import HostTables
from traceanalyzer.tables.schema import ALLOCATIONS, COPIES, KERNELS, OPS, STEPS
from traceanalyzer.tables.tracer import TracerFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from traceanalyzer.evidence.analysis import Subject
    from traceanalyzer.evidence.held import Held
    from traceanalyzer.findings import Finding
    from traceanalyzer.model import Certainty, Evidence, Fix, Harm
    from traceanalyzer.sidecar.document import Sidecar
    from traceanalyzer.tables.joined import OpRecord

__all__ = ["BlockerExample", "CapturedExample", "Example", "Mark", "Rule", "Words"]

_FACTS = TracerFacts(
    host_level=2,
    host_level_source="assumed",
    options=None,
    accelerators={"/device:GPU:0": 100},
    gpu_used=True,
    gpu_witness="events on /device:GPU:0",
    gpu_may_be_missed=False,
    pluggable_used=False,
)
_OP: dict[str, Any] = {
    "host": "h",
    "function": "train_step",
    "role": "compute",
    "placement": "cpu",
    "placement_certainty": "likely",
    "placement_source": "host_event",
    "is_eager": False,
    "in_input_pipeline": False,
    "occurrences": 1,
    "host_self_ps": 1_000_000,
    "host_total_ps": 1_000_000,
}


@dataclass(frozen=True, kw_only=True)
class Example:
    """Rows of an op table, and the ops among them that the rule must name.

    Attributes:
        title: What it shows.
        ops: Rows; what a row leaves out is filled in as for a plain op on the CPU.
        fires_on: Names of the ops that the findings name; empty where the rule stays silent.
        facts: What differs from a trace of level 2 of a machine whose GPU was used.
    """

    title: str
    ops: tuple[dict[str, Any], ...]
    fires_on: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)

    def run(self) -> Run:
        """Return the rows as a run."""
        rows = [{**_OP, "op_id": f"op{k}", **op} for k, op in enumerate(self.ops)]
        frame = pd.DataFrame(rows, columns=list(OPS.columns))
        numbers = [c for c, column in OPS.columns.items() if column.dtype == "int64"]
        frame[numbers] = frame[numbers].fillna(0)
        empty: dict[str, Any] = {
            schema.name: pd.DataFrame({c: [] for c in schema.columns})
            for schema in (KERNELS, COPIES, ALLOCATIONS, STEPS)
        }
        tables = HostTables(ops=frame, facts=replace(_FACTS, **self.facts), **empty)
        host = Host(
            name="h",
            file=None,
            format="xplane",
            tables=tables,
            errors=(),
            warnings=(),
            damage=None,
            start_ps=0,
            end_ps=10_000_000,
            device_properties={},
        )
        return Run(name="example", path_name="example", hosts=(host,))


@dataclass(frozen=True, kw_only=True)
class CapturedExample(Example):
    """An example of a capture.

    Attributes:
        sidecar: What was recorded.
        record: What it tells of each row, or None.
    """

    sidecar: Sidecar
    record: OpRecord | None = None

    def run(self) -> Run:
        """Return the rows as a run, with the sidecar beside them."""
        return captured(super().run(), self.sidecar, (self.record,) * len(self.ops))


@dataclass(frozen=True, kw_only=True)
class Mark:
    """What a rule says of one thing that keeps an op from a GPU, when it is of the rule's cause.

    Attributes:
        scope: What tells findings of one cause apart: ops with equal scopes have the same cause. It
            must be the same when the program is recorded again: no line numbers, no counters.
        line: The line that is the cause, where a scope may have several: each has its finding, and
            these are numbered in the order of their lines.
        evidence: What shows it.
        certainty: The most that the rule answers for.
        sub_reason: A closer name for the cause, or None.
        leads: Whether it is the cause of its ops' finding, whatever else keeps some of them.
    """

    scope: str
    evidence: tuple[Evidence, ...]
    certainty: Certainty = "certain"
    sub_reason: str | None = None
    line: tuple[str, int] | None = None
    leads: bool = False


@dataclass(frozen=True, kw_only=True)
class Words:
    """What a finding says of ops that have a cause in common.

    Attributes:
        title: One line.
        why: Why it happens, in a few sentences.
        harm: Whether it hurts.
        fixes: What to change.
        modifiers: What goes with it, such as `soft_placement_fallback`.
    """

    title: str
    why: str
    harm: Harm
    fixes: tuple[Fix, ...] = ()
    modifiers: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class BlockerExample:
    """Something that keeps an op from a GPU, and whether the rule must know it as its cause.

    Attributes:
        title: What it shows.
        subject: The op.
        held: What keeps it.
        fires: Whether it is of the rule's cause.
    """

    title: str
    subject: Subject
    held: Held
    fires: bool


def _finds_nothing(_: Run) -> Iterable[Finding]:
    return ()


def _recognises_nothing(_: Subject, __: Held) -> Mark | None:
    return None


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One cause: how it is found, and when the question does not arise.

    A rule looks at a run as a whole (`check`), or at the single things that keep ops from a GPU
    (`recognises`); of each such thing one rule must say that it is of its cause.

    Attributes:
        id: Id of the cause; the module's name.
        title: What it is, in a few words.
        documentation: The module's docstring: what it detects, why it happens, how to fix it, how
            sure it is.
        not_applicable: Returns why the question does not arise for a run, or None.
        check: Returns the findings of a run.
        recognises: Returns what the rule says of something that keeps an op from a GPU, or None if
            it is of another cause.
        words: Returns what is said of ops that have the cause first of all, with what keeps each.
        examples: For `check`, at least one that fires and one that stays silent.
        blocker_examples: The same for `recognises`.
    """

    id: str
    title: str
    documentation: str
    check: Callable[[Run], Iterable[Finding]] = _finds_nothing
    recognises: Callable[[Subject, Held], Mark | None] = _recognises_nothing
    words: Callable[[Sequence[tuple[Subject, Held]]], Words] | None = None
    examples: tuple[Example, ...] = ()
    blocker_examples: tuple[BlockerExample, ...] = ()
    not_applicable: Callable[[Run], str | None] = lambda _: None

    @property
    def looks_at_runs(self) -> bool:
        """Whether it looks at runs as a whole, and not only at what keeps single ops."""
        return self.check is not _finds_nothing
