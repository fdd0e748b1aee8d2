"""It follows its neighbour.

## What it detects

Ops that TensorFlow placed on the CPU because what they take, or what takes what they make, is
there.

## Why it happens

Three kinds of ops follow a neighbour rather than take the first device (placer.cc): an op without
inputs and with one output, a constant most often, goes where all its consumers are; `Shape`, `Size`
and `Rank`, which look at metadata only, go where their input is; an `Identity` between two ops goes
where its input is.

## How to fix it

Nothing here: move what it follows, and it moves too.

## How sure it is

Certain: a replay of the placement gives the recorded one, and moves the op when what it follows is
moved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.capture_file.frames import same_place
from traceanalyzer.causes._cause import Cause, CauseMatch, FindingText
from traceanalyzer.causes.knowledge.finding_text import blocker_text, line_evidence, ops_text
from traceanalyzer.model import CaptureFileWhere, Fix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.evidence.analysis import CpuOp
    from traceanalyzer.evidence.recorded_blockers import RecordedBlocker


def _match(cpu_op: CpuOp, blocker: RecordedBlocker) -> CauseMatch | None:
    if blocker.link != "follows":
        return None
    trail = cpu_op.explanation.follows or (blocker.name or blocker.type,)
    attributes = " ".join(f"{k}={v}" for k, v in sorted(blocker.attributes.items()))
    where = CaptureFileWhere(sidecar=f"node {cpu_op.name}")
    return CauseMatch(
        scope=f"{blocker.type} {blocker.kind.value} {attributes} {same_place(blocker.scope_frame)}",
        evidence=(
            line_evidence("placement_rule", f"it follows {', '.join(trail[:3])}", None, where),
            line_evidence(
                "blocker", blocker_text(blocker), blocker.scope_frame or blocker.frame, where
            ),
        ),
    )


def _describe(members: Sequence[tuple[CpuOp, RecordedBlocker]]) -> FindingText:
    blocker = members[0][1]
    return FindingText(
        title=f"{ops_text(members)} on the CPU, following {blocker.type}",
        why=(
            "TensorFlow places constants, identities and ops that look at shapes with their "
            f"neighbour; and {blocker_text(blocker)}. These ops take little time, and move with it."
        ),
        harm="harmless",
        fixes=(Fix(text=f"Nothing here: what keeps {blocker.type} on the CPU is what counts."),),
    )


CAUSE = Cause(
    id="follows_neighbour",
    title="It follows its neighbour",
    documentation=__doc__,
    match=_match,
    describe=_describe,
)
