"""Ops without a GPU kernel."""

from dataclasses import replace

from traceanalyzer.causes._cause import BlockedOps, Blocker, CauseMatch, CpuOp, FindingText, fix
from traceanalyzer.causes.knowledge.advice import SUBSTITUTES, Advice, around, host_work, substitute
from traceanalyzer.causes.knowledge.finding_text import (
    COPIED,
    FASTER_PIPELINE,
    made_at,
    observed,
)
from traceanalyzer.causes.knowledge.inside_calls import fix_inside
from traceanalyzer.model import Fix
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.kernel_types import definition_of
from traceanalyzer.tables.vocabulary import PYTHON_CALLBACKS


def match(cpu_op: CpuOp, blocker: Blocker) -> CauseMatch | None:
    is_own = blocker.kind is BlockerKind.NO_KERNEL and blocker.link == "own"
    if not is_own or blocker.type in PYTHON_CALLBACKS or definition_of(blocker.type) is None:
        return None
    text = f"TensorFlow's kernel registry has no GPU kernel for {blocker.type}, for any dtype"
    registry = observed("kernel_registry", text)
    return CauseMatch(scope=blocker.type, evidence=(registry, *made_at(cpu_op)))


def describe(ops: BlockedOps) -> FindingText:
    work = host_work(ops.blocker.type)
    dropped = "TensorFlow dropped the request for a GPU without a warning."
    text = ops.described(
        "no_gpu_kernel",
        (FASTER_PIPELINE,) if ops.are_input else ops.checked([_fix(ops, work)]),
        modifiers=ops.fallback,
        work=COPIED if work is None else work.why,
        request=dropped if ops.fallback else "`tf.device` does not change that.",
    )
    return replace(text, harm="by_design") if work is not None or ops.are_input else text


def _fix(ops: BlockedOps, work: Advice | None) -> Fix:
    op_type, line = ops.blocker.type, ops.library
    if work is not None and (work.id == "dataset" or (line is not None and work.in_libraries)):
        return work.fix
    function = "" if line is None else line.code
    if line is not None and (op_type, function) not in SUBSTITUTES:
        return around(op_type, line)
    found = substitute(op_type, [blocker.given for blocker in ops.blockers], function)
    if found is not None:
        return found
    if work is not None:
        return work.fix
    if ops.caller:
        return fix_inside(op_type, ops.caller)
    return fix("no_gpu_kernel/no_substitute", type=op_type)
