"""No GPU kernel.

## What it detects
Ops of a type for which TensorFlow has no GPU kernel, whatever the dtypes of their inputs.

## Why it happens
Most often the work does not suit a GPU: strings, image files, hash tables, sequences of unknown
length. TensorFlow places such an op on the CPU, even inside `tf.device("/GPU:0")`: soft placement,
the default in TensorFlow 2, drops the request without a warning. Work on strings, files, tables,
summaries, and checkpoints belongs on the host. Computation does not: its inputs are copied from the
GPU, and its results are copied back.

## How to fix it
Use other ops for the same purpose, if there are any. The ops that a finding suggests have GPU
kernels in all versions from 2.12 on, for the dtype of the data. A fix is called checked if its code
ran beside the op with the same result, and TensorFlow placed all of it on the GPU. Otherwise move
the op into the input pipeline, before or after the work on the GPU, or out of the step. If a
library creates the op, the finding names the library's line and option.

## How sure it is
Certain if TensorFlow's version is known and covered by the kernel tables. Otherwise likely: kernels
are seldom removed, so a kernel that is missing in the nearest version was probably missing, too.
"""

from __future__ import annotations

from dataclasses import replace

from traceanalyzer.causes._cause import BlockedOps, Blocker, Cause, CauseMatch, CpuOp, FindingText
from traceanalyzer.causes.knowledge.advice import SUBSTITUTES, Advice, around, host_work, substitute
from traceanalyzer.causes.knowledge.finding_text import (
    COPIED,
    FASTER_PIPELINE,
    made_at,
    observed,
)
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
    return ops.fix("no_substitute", type=op_type)


CAUSE = Cause(__name__, __doc__, match=match, describe=describe)
