"""No GPU kernel.

## What it detects

Ops of a type for which TensorFlow has no GPU kernel at all, whatever their inputs.

## Why it happens

Nobody wrote one: most often because the work suits no GPU (strings, images in files, hash tables,
sequences of unknown length) or because it was never asked for. TensorFlow then places the op on the
CPU, under `tf.device("/GPU:0")` too: soft placement, the default in TensorFlow 2, gives the request
up without a word. No driver, library or setting changes that.

For what works on strings, files, hash tables, summaries and checkpoints that is by design: they are
on the host. For computation it does harm: inputs are copied from the GPU and results back.

## How to fix it

Use other ops for the same purpose, where there are some; those that a finding names have GPU
kernels in every version from 2.12 on, for the type of the data. A fix is called checked if its code
was run beside the op, with the same result, and TensorFlow placed all of it on the GPU. Otherwise
move the op out of the GPU's way: into the input pipeline, before or after what runs on the GPU, or
out of the step. Where a library makes the op, the finding names the library's line and its switch.

## How sure it is

Certain where TensorFlow's version is known: the kernels of that version say so. Likely for versions
before the first of these tables: a kernel that is missing today was hardly there then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.causes._cause import Cause, CauseMatch, FindingText
from traceanalyzer.causes.knowledge.finding_text import (
    at_lines,
    checked_if_sufficient,
    library_made,
    made_at,
)
from traceanalyzer.causes.knowledge.host_work import DATASETS, host_kind
from traceanalyzer.causes.knowledge.library_switches import around
from traceanalyzer.causes.knowledge.pipeline_advice import FASTER, all_in_pipelines
from traceanalyzer.causes.knowledge.substitutes import OF_FUNCTIONS, substitute_for
from traceanalyzer.evidence.kernel_types import definition_of
from traceanalyzer.model import Evidence, Fix
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.tables.vocabulary import PYTHON_CALLBACKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.causes.knowledge.host_work import HostKind
    from traceanalyzer.evidence.analysis import CpuOp
    from traceanalyzer.evidence.recorded_blockers import RecordedBlocker
    from traceanalyzer.model import Harm


_MOVE: Final = Fix(
    text=(
        "No substitute is known. Move it out of the step if that can be: into the input pipeline "
        "(`dataset.map`), or before or after what runs on the GPU, so that its inputs and results "
        "are not copied in the middle."
    )
)


def _match(cpu_op: CpuOp, blocker: RecordedBlocker) -> CauseMatch | None:
    if (
        blocker.kind is not BlockerKind.NO_KERNEL
        or blocker.link != "own"
        or blocker.type in PYTHON_CALLBACKS
    ):
        return None
    if definition_of(blocker.type) is None:
        return None
    text = f"TensorFlow's kernel registry has no GPU kernel for {blocker.type}, of any type of data"
    registry = Evidence(kind="kernel_registry", text=text)
    return CauseMatch(scope=blocker.type, evidence=(registry, *made_at(cpu_op)))


def _describe(members: Sequence[tuple[CpuOp, RecordedBlocker]]) -> FindingText:
    op = members[0][1].type
    requested = any("GPU" in (s.requested_device or "").upper() for s, _ in members)
    kind = host_kind(op)
    is_input = all_in_pipelines(members)
    harm: Harm = "harmful" if kind is None and not is_input else "by_design"
    return FindingText(
        title=f"{op} has no GPU kernel in TensorFlow{at_lines(s for s, _ in members)}",
        why=(
            f"TensorFlow has kernels for {op} on the CPU alone, so it runs there whatever the type "
            "of its inputs; "
            + (
                "the request for a GPU was given up without a word. "
                if requested
                else "`tf.device` would not change that. "
            )
            + (
                "What it takes from the GPU is copied to the host, and its result back."
                if kind is None
                else kind.because
            )
        ),
        harm=harm,
        fixes=(FASTER,) if is_input else checked_if_sufficient(_fixes(members, kind), members),
        modifiers=("soft_placement_fallback",) if requested else (),
    )


def _fixes(
    members: Sequence[tuple[CpuOp, RecordedBlocker]], kind: HostKind | None
) -> tuple[Fix, ...]:
    op = members[0][1].type
    if kind is DATASETS:
        return (kind.fix,)
    line = library_made(members)
    function = "" if line is None else line.code
    if line is not None and (op, function) not in OF_FUNCTIONS:
        return (kind.fix if kind is not None and kind.in_libraries else around(op, line),)
    each = [(substitute_for(op, blocker.given, function), blocker.given) for _, blocker in members]
    known = [(substitute, given) for substitute, given in each if substitute is not None]
    if len(known) < len(each):
        return (_MOVE if kind is None else kind.fix,)
    return (
        Fix(
            text=known[0][0].text,
            code=known[0][0].code,
            checked=all(substitute.is_checked_for(given) for substitute, given in known),
        ),
    )


CAUSE = Cause(
    id="no_gpu_kernel",
    title="No GPU kernel",
    documentation=__doc__,
    match=_match,
    describe=_describe,
)
