"""Custom ops, which other libraries define."""

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from traceanalyzer.causes._cause import BlockedOps, Blocker, CauseMatch, CpuOp, FindingText, finding
from traceanalyzer.causes.knowledge.finding_text import at_lines, given_text, made_at, observed
from traceanalyzer.cpu_ops import analyse
from traceanalyzer.findings import Finding
from traceanalyzer.model import Evidence
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.kernel_types import definition_of
from traceanalyzer.run import Run

needs: Final = "gpu"

# Op names (op_def_builder.cc), without those that begin with an underscore: TensorFlow's own.
_OP: Final = re.compile(r"[A-Z][A-Za-z0-9_.>]*")
_ABOUT_KERNELS: Final = {BlockerKind.NO_KERNEL, BlockerKind.ATTRIBUTES}


def check(run: Run) -> Iterator[Finding]:
    """Yield findings about custom ops whose kernels are unknown."""
    by_type: dict[str, list[CpuOp]] = defaultdict(list)
    for cpu_op in analyse(run).cpu_ops.values():
        # Ops with blockers belong to other causes; calls have the name of a captured function.
        op_type = cpu_op.explanation.type
        if cpu_op.explanation.blockers or not _is_foreign(op_type):
            continue
        if all(file.definition(op_type) is None for _, file in run.captured):
            by_type[op_type].append(cpu_op)
    for op_type, ops in by_type.items():
        is_likely = all(op.explanation.contradiction and not op.explanation.doubt for op in ops)
        yield finding(
            "custom_op/unknown_kernels",
            values={"type": op_type, "at": at_lines(ops)},
            scope=op_type,
            certainty="likely" if is_likely else "possible",
            op_ids=tuple(op.op_id for op in ops),
            evidence=(_unknown(op_type), *(e for op in ops[:5] for e in made_at(op))),
        )


def match(cpu_op: CpuOp, blocker: Blocker) -> CauseMatch | None:
    if blocker.link != "own" or blocker.kind not in _ABOUT_KERNELS or not _is_foreign(blocker.type):
        return None
    text = f"the library registered no GPU kernel for {blocker.type}"
    if blocker.attributes:
        text += f" with {given_text(blocker.attributes)}"
    registered = observed("registered_kernels", text, f"kernels: {blocker.type}")
    evidence = (_unknown(blocker.type), registered, *made_at(cpu_op))
    return CauseMatch(scope=blocker.type, evidence=evidence)


def describe(ops: BlockedOps) -> FindingText:
    return ops.described("custom_op", use=" as used here" if ops.blocker.attributes else "")


def _is_foreign(op: str) -> bool:
    return _OP.fullmatch(op) is not None and definition_of(op) is None


def _unknown(op_type: str) -> Evidence:
    return observed("kernel_registry", f"no version of TensorFlow has an op named {op_type}")
