"""Small integer ops kept on the host.

## What it detects

Eager ops that TensorFlow keeps on the CPU because they have few integers to work on, which a
variable of the environment asks it to do.

## Why it happens

With `TF_EAGER_ENABLE_SMALL_TENSOR_CPU_PINNING=1` an eager op runs on the CPU if all its inputs are
there, are int32 or int64, and have 64 elements at most (placement_utils.cc). Ops that draw random
numbers and calls of functions are left alone. The variable is off by default in TensorFlow 2.12 to
2.21: elsewhere it is often said that this always happens.

## How to fix it

Unset the variable. It does nothing to the ops of a graph: a `tf.function` around the code serves as
well.

## How sure it is

Certain: the capture recorded the variable, and the types and shapes of the inputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.causes._cause import Cause, CauseMatch, FindingText
from traceanalyzer.causes.knowledge.finding_text import is_only_blocker, ops_text
from traceanalyzer.model import CaptureFileWhere, Evidence, Fix
from traceanalyzer.placement.blocker import BlockerKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.evidence.analysis import CpuOp
    from traceanalyzer.placement.blocker import Blocker

_VARIABLE: Final = "TF_EAGER_ENABLE_SMALL_TENSOR_CPU_PINNING"


def _match(_: CpuOp, blocker: Blocker) -> CauseMatch | None:
    if blocker.kind is not BlockerKind.SMALL_INPUTS or blocker.link != "own":
        return None
    return CauseMatch(
        scope="",
        evidence=(
            Evidence(
                kind="environment",
                text=f"{_VARIABLE} is set in the program's environment",
                where=CaptureFileWhere(sidecar=f"environment: {_VARIABLE}"),
            ),
        ),
    )


def _describe(members: Sequence[tuple[CpuOp, Blocker]]) -> FindingText:
    return FindingText(
        title=f"{_VARIABLE} keeps small integer ops on the CPU: {ops_text(members)}",
        why=(
            "The variable makes TensorFlow run an eager op on the CPU if all its inputs are there "
            "and are at most 64 integers each. There is little to compute; it can hurt only where "
            "what follows, on the GPU, has to wait for the result."
        ),
        harm="harmless",
        fixes=(
            Fix(
                text="Start the program without the variable.",
                code=f"env -u {_VARIABLE} python train.py",
                checked=is_only_blocker(members),
            ),
        ),
    )


CAUSE = Cause(
    id="small_int_pinning",
    title="Small integer ops kept on the host",
    documentation=__doc__,
    match=_match,
    describe=_describe,
)
