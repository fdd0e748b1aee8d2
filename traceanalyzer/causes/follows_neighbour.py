"""Follows a neighbor.

## What it detects
Ops placed on the CPU because their inputs or consumers are there.

## Why it happens
Three kinds of ops follow a neighbor instead of taking the first device (placer.cc). An op with no
inputs and one output, usually a constant, goes where all its consumers are. `Shape`, `Size`, and
`Rank`, which use only metadata, go where their input is. An `Identity` between two ops goes where
its input is.

## How to fix it
Nothing to change here: move the neighbor, and these ops follow.

## How sure it is
Certain: a replay reproduces the recorded placement, and moves the op when the neighbor moves.
"""

from __future__ import annotations

from traceanalyzer.causes._cause import BlockedOps, Blocker, Cause, CauseMatch, CpuOp, FindingText
from traceanalyzer.causes.knowledge.finding_text import observed


def match(cpu_op: CpuOp, blocker: Blocker) -> CauseMatch | None:
    if blocker.link != "follows":
        return None
    followed = cpu_op.explanation.follows or (blocker.name or blocker.type,)
    where = f"node {cpu_op.name}"
    tie = observed("placement_rule", f"it follows {', '.join(followed[:3])}", where)
    return CauseMatch.by_other(blocker, tie, where)


def describe(ops: BlockedOps) -> FindingText:
    return ops.described("follows_neighbour")


CAUSE = Cause(__name__, __doc__, match=match, describe=describe)
