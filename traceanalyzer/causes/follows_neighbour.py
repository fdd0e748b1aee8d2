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

from typing import TYPE_CHECKING

from traceanalyzer.causes._cause import Cause, CauseMatch, FindingText
from traceanalyzer.causes.knowledge.finding_text import (
    Members,
    blocker_scope,
    blocker_text,
    observed,
    ops_text,
)
from traceanalyzer.model import Fix

if TYPE_CHECKING:
    from traceanalyzer.cpu_ops import CpuOp
    from traceanalyzer.placement.blocker import Blocker


def match(cpu_op: CpuOp, blocker: Blocker) -> CauseMatch | None:
    if blocker.link != "follows":
        return None
    followed = cpu_op.explanation.follows or (blocker.name or blocker.type,)
    where = f"node {cpu_op.name}"
    text = f"it follows {', '.join(followed[:3])}"
    frame = blocker.scope_frame or blocker.frame
    return CauseMatch(
        scope=blocker_scope(blocker),
        evidence=(
            observed("placement_rule", text, where),
            observed("blocker", blocker_text(blocker), where, line=frame),
        ),
    )


def describe(members: Members) -> FindingText:
    blocker = members[0][1]
    return FindingText(
        title=f"On the CPU, following {blocker.type}: {ops_text(members)}",
        why=(
            "TensorFlow places constants, identities, and ops that only look at shapes with their "
            f"neighbor, and {blocker_text(blocker)}. These ops take little time."
        ),
        harm="harmless",
        fixes=(Fix(text=f"Nothing to change here: these ops follow {blocker.type}."),),
    )


CAUSE = Cause(__name__, "Follows a neighbor", __doc__, match=match, describe=describe)
