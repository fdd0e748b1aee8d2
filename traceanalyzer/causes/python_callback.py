"""Ops that call Python from a graph."""

from collections.abc import Iterator
from dataclasses import replace

from traceanalyzer.causes._cause import BlockedOps, Blocker, CauseMatch, CpuOp, FindingText, finding
from traceanalyzer.causes.knowledge.finding_text import (
    is_requested_for_python,
    made_at,
    observed,
)
from traceanalyzer.findings import Finding
from traceanalyzer.format import counted, series
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.run import Run
from traceanalyzer.tables.vocabulary import PYTHON_CALLBACKS


def check(run: Run) -> Iterator[Finding]:
    ops = run.ops
    found = ops[ops["type"].isin(PYTHON_CALLBACKS) & (ops["placement"] != "remote")]
    by_type = found.groupby(["type", "in_input_pipeline"], observed=True, sort=True)
    for (op_type, in_pipeline), rows in by_type:
        names = sorted(set(rows["name"].astype(str)))
        calls = counted(int(rows["occurrences"].sum()), "call")
        case = "in_input_pipeline" if in_pipeline else ""
        every = finding(
            f"python_callback/{case}",
            values={"type": str(op_type), "at": ""},
            sub_reason=case or None,
            scope=f"{op_type}\0{in_pipeline}",
            certainty="certain",
            op_ids=tuple(rows["op_id"]),
            evidence=(observed("op_type", f"recorded {calls} of {series(names)}"),),
        )
        why = f"{every.why} The run used no GPU, so no GPU waited for the op."
        yield every if run.gpu_used else replace(every, harm="harmless", why=why)


def match(cpu_op: CpuOp, blocker: Blocker) -> CauseMatch | None:
    if blocker.link != "own" or blocker.type not in PYTHON_CALLBACKS:
        return None
    if is_requested_for_python(blocker):
        text = f"TensorFlow requests the CPU for {blocker.type}, which calls a Python function"
    elif blocker.kind in {BlockerKind.NO_KERNEL, BlockerKind.ATTRIBUTES}:
        given = f" for its {series(sorted(blocker.attributes))}" if blocker.attributes else ""
        text = f"{blocker.type} calls a Python function and has no GPU kernel{given}"
    else:
        return None
    return CauseMatch(scope=blocker.type, evidence=(observed("op_type", text), *made_at(cpu_op)))


def describe(ops: BlockedOps) -> FindingText:
    return ops.described(f"python_callback{'/in_input_pipeline' if ops.are_input else ''}")
