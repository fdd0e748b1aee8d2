"""Computed inside a dataset.

## What it detects
Ops on the CPU because a `tf.function` builds a dataset, reduces it or loops over it, and passes a
value of its own to `map`, `filter`, or similar stages. These ops may compute for the function, but
tf.data runs them.

## Why it happens
tf.data places the functions that a dataset calls on the CPU unless they request another device
(`CapturedFunction::Instantiate`, captured_function.cc): it expects them to prepare input while the
GPU works. If the function needs the results of its own `map` to continue, the GPU waits instead,
and each call copies the values of variables on the GPU to the CPU. The function passed to `reduce`
and the body of `for x in dataset` are not affected: they run on the GPU.

## How to fix it
Move the work from `map` to the loop over the dataset or to the function passed to `reduce`, or
request the GPU in the mapped function with `tf.device`. If all elements fit into one tensor,
compute on that tensor without a dataset.

## How sure it is
Likely: the capture recorded the dataset, the functions it calls, and their values. It does not show
whether they compute for the function or prepare its input. Functions that get no value, or whose
results are prefetched, count as input.
"""

from __future__ import annotations

from traceanalyzer.causes._cause import BlockedOps, Blocker, Cause, CauseMatch, CpuOp, FindingText
from traceanalyzer.causes.knowledge.advice import switch_of
from traceanalyzer.causes.knowledge.finding_text import observed
from traceanalyzer.placement.blocker import BlockerKind


def match(_: CpuOp, blocker: Blocker) -> CauseMatch | None:
    is_default = blocker.kind is BlockerKind.DEFAULT_DEVICE and blocker.link == "own"
    if not (is_default and blocker.for_step):
        return None
    text = (
        "a function reduces a dataset that calls this op's function with one of its values; the "
        "CPU is the default device of that call"
    )
    evidence = observed("default_device", text, f"function {blocker.function}")
    return CauseMatch(scope="", evidence=(evidence,), certainty="likely")


def describe(ops: BlockedOps) -> FindingText:
    switch = None if ops.library is None else switch_of(ops.blocker.type, ops.library)
    return ops.described("inside_dataset", None if switch is None else (switch,))


CAUSE = Cause(__name__, __doc__, match=match, describe=describe)
