"""What a rule is, and how its examples are written."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from traceanalyzer.run import Host, Run
from traceanalyzer.tables.host_tables import HostTables
from traceanalyzer.tables.schema import ALLOCATIONS, COPIES, KERNELS, OPS, STEPS
from traceanalyzer.tables.tracer import TracerFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from traceanalyzer.findings import Finding

__all__ = ["Example", "Rule"]

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
class Rule:
    """One cause: how it is found, and when the question does not arise.

    Attributes:
        id: Id of the cause; the module's name.
        title: What it is, in a few words.
        documentation: The module's docstring: what it detects, why it happens, how to fix it, how
            sure it is.
        not_applicable: Returns why the question does not arise for a run, or None.
        check: Returns the findings of a run.
        examples: At least one that fires and one that stays silent.
    """

    id: str
    title: str
    documentation: str
    check: Callable[[Run], Iterable[Finding]]
    examples: tuple[Example, ...]
    not_applicable: Callable[[Run], str | None] = lambda _: None
