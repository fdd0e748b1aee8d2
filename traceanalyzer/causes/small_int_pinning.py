"""Small integer ops kept on the host.

## What it detects
Eager ops on a few integers that TensorFlow keeps on the CPU because an environment variable
requests it.

## Why it happens
With `TF_EAGER_ENABLE_SMALL_TENSOR_CPU_PINNING=1`, an eager op runs on the CPU if all its inputs are
there, are int32 or int64, and have at most 64 elements (placement_utils.cc). Random ops and
function calls are excepted. The variable is off by default in TensorFlow 2.12 to 2.21, although it
is often said that this always happens.

## How to fix it
Unset the variable. It does not affect ops in a graph, so a `tf.function` around the code helps too.

## How sure it is
Certain: the capture recorded the variable, and the dtypes and shapes of the inputs.
"""

from __future__ import annotations

from typing import Final

from traceanalyzer.causes._cause import BlockedOps, Blocker, Cause, CauseMatch, CpuOp, FindingText
from traceanalyzer.causes.knowledge.finding_text import observed
from traceanalyzer.placement.blocker import BlockerKind

_VARIABLE: Final = "TF_EAGER_ENABLE_SMALL_TENSOR_CPU_PINNING"


def match(_: CpuOp, blocker: Blocker) -> CauseMatch | None:
    if blocker.kind is not BlockerKind.SMALL_INPUTS or blocker.link != "own":
        return None
    text = f"{_VARIABLE} is set in the program's environment"
    evidence = observed("environment", text, f"environment: {_VARIABLE}")
    return CauseMatch(scope="", evidence=(evidence,))


def describe(ops: BlockedOps) -> FindingText:
    return ops.described("small_int_pinning", variable=_VARIABLE)


CAUSE = Cause(__name__, __doc__, match=match, describe=describe)
