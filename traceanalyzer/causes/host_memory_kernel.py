"""Ops placed on the GPU but computed on the host."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final

from traceanalyzer.causes._cause import BlockedOps, Blocker, CauseMatch, CpuOp, FindingText, finding
from traceanalyzer.causes.knowledge.finding_text import at_lines, given_text, made_at, observed
from traceanalyzer.findings import Finding
from traceanalyzer.format import counted, listed, series
from traceanalyzer.model import Fix
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.kernel_types import (
    definition_of,
    is_copied_to_host,
    is_never_computed,
    types_computed,
)
from traceanalyzer.run import Run

_SUGGESTED: Final = {"int64": "int64", "float32": "float"}


def not_applicable(run: Run) -> str | None:
    return None if run.gpu_used or run.captured else "TensorFlow used no GPU"


def check(run: Run) -> Iterator[Finding]:
    ops = run.ops
    found = ops[(ops["placement"] == "host_memory") & ~ops["type"].map(_makes_handles).astype(bool)]
    if found.empty or not run.gpu_used:
        return
    for scope, rows in found.groupby(found["type"].astype(str).map(_scope)):
        types = sorted(set(rows["type"].astype(str)))
        placement = f"ops on a GPU with values in host memory: {listed(types)}"
        yield finding(
            f"host_memory_kernel/{scope}",
            **_text(types, len(rows)),
            scope=str(scope),
            certainty="certain" if (rows["placement_certainty"] == "certain").all() else "likely",
            op_ids=tuple(rows["op_id"]),
            evidence=(observed("placement", placement),),
        )


def match(cpu_op: CpuOp, blocker: Blocker) -> CauseMatch | None:
    if blocker.kind is not BlockerKind.HOST_MEMORY:
        return None
    given = f" with {given_text(blocker.attributes)}" if blocker.attributes else ""
    text = f"the GPU kernel of {blocker.type}{given} is registered with all data in host memory"
    registered = observed("kernel_registry", text)
    return CauseMatch(scope=_scope(blocker.type), evidence=(registered, *made_at(cpu_op)))


def describe(ops: BlockedOps) -> FindingText:
    types = list(dict.fromkeys(blocker.type for blocker in ops.blockers))
    case = f"host_memory_kernel{'/data' if is_copied_to_host(types[0]) else ''}"
    text = _text(types, len(ops.members), at_lines(ops.ops))
    return ops.described(case, text["fixes"], **text["values"])


def _makes_handles(op_type: str) -> bool:
    definition = definition_of(op_type)
    return definition is not None and definition.makes_handles


def _scope(op: str) -> str:
    return "data" if is_copied_to_host(op) else ""


def _text(types: Sequence[str], count: int, at: str = "") -> dict[str, Any]:
    """Return the keyword arguments of a finding: its fixes, and the values for its text."""
    never = [op for op in types if is_never_computed(op)]
    return {
        "fixes": () if is_copied_to_host(types[0]) else tuple(_fixes(types)),
        "values": {
            "subject": f"{types[0]}{at} is" if count == 1 else f"{counted(count, 'op')} are",
            "names": "" if count == 1 else f": {listed(types)}",
            "never": f" The host computes {series(never)} for any dtype." if never else "",
        },
    }


def _fixes(types: Sequence[str]) -> Iterator[Fix]:
    by_dtypes: dict[str, list[str]] = defaultdict(list)
    for op in types:
        names = [name for name, dtype in _SUGGESTED.items() if dtype in types_computed(op)]
        if names:
            by_dtypes[" or ".join(names)].append(op)
    if by_dtypes:
        computed_with = "; ".join(f"{series(ops)} with {names}" for names, ops in by_dtypes.items())
        yield Fix.of(
            "Create the tensors with another dtype",
            f"A GPU can compute {computed_with}. Small tensors need no change.",
            condition="the tensors are large",
            code="x = tf.constant(values, tf.int64)",
        )
