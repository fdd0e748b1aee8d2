"""Its colocation group keeps it on the CPU.

## What it detects

Ops that are bound to another op by a `_class` attribute, where that other op is what keeps all of
them on the CPU.

## Why it happens

Ops of one group get one device, which must suit them all (colocation_graph.cc): one member without
a GPU kernel takes the rest along. `tf.compat.v1.colocate_with` makes such groups, as do gradients
that are colocated with the ops of the forward pass and the slots of optimizers. `colocate_with`
also copies the other op's request, so that the op looks as if it had asked for the CPU itself.

## How to fix it

Where the program itself asks for the colocation, take that away: leave out `colocate_with`, and
`colocate_gradients_with_ops` of `tf.compat.v1.gradients`; take gradients with `tf.GradientTape`
rather than with `tf.gradients`, which always colocates them. What an optimizer makes for a variable
is colocated with it by TensorFlow itself, and moves when the variable does. So otherwise remove
what holds the member that is named.

## How sure it is

Certain: the capture recorded the attribute, and a replay of the placement shows which member it is
without which the group moves.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.frames import same_place
from traceanalyzer.causes._cause import Cause, CauseMatch, FindingText
from traceanalyzer.causes.knowledge.finding_text import (
    blocker_text,
    is_of_strategy,
    line_evidence,
    ops_text,
)
from traceanalyzer.evidence.colocating_lines import asked_by
from traceanalyzer.model import CaptureFileWhere, Fix
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.devices import device_text
from traceanalyzer.wording import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.evidence.analysis import CpuOp
    from traceanalyzer.evidence.colocating_lines import Way
    from traceanalyzer.evidence.recorded_blockers import RecordedBlocker
    from traceanalyzer.model import Evidence


_TAKEN_AWAY: Final[dict[Way, tuple[str, str]]] = {
    "scope": (
        "Make them outside of the `colocate_with` at {}.",
        "with tf.compat.v1.colocate_with(None, ignore_existing=True): ...",
    ),
    "argument": (
        "Leave `colocate_gradients_with_ops`, which colocates gradients, out of the call at {}.",
        "gradients = tf.compat.v1.gradients(loss, variables)",
    ),
    "gradients": (
        "Take the gradients at {} with `tf.GradientTape`, which colocates nothing.",
        "with tf.GradientTape() as tape: ...\ngradients = tape.gradient(loss, variables)",
    ),
}


def _match(cpu_op: CpuOp, blocker: RecordedBlocker) -> CauseMatch | None:
    if _is_copied(blocker):
        device = device_text(blocker.requested_device)
        text = f"it is colocated with {blocker.copied_from}, and has its request for {device}"
        return CauseMatch(
            scope=f"{cpu_op.function} {cpu_op.explanation.type} has the request for {device}",
            evidence=(_at_node(blocker.name or cpu_op.name, text),),
            sub_reason="copied_request",
        )
    if blocker.link != "class":
        return None
    attributes = " ".join(f"{k}={v}" for k, v in sorted(blocker.attributes.items()))
    return CauseMatch(
        scope=f"{blocker.type} {blocker.kind.value} {attributes} {same_place(blocker.scope_frame)}",
        evidence=(
            _at_node(
                cpu_op.name, f"it is colocated with {blocker.name or blocker.type} by `_class`"
            ),
            line_evidence(
                "blocker",
                blocker_text(blocker),
                blocker.scope_frame or blocker.frame,
                CaptureFileWhere(sidecar=f"node {blocker.name}") if blocker.name else None,
            ),
        ),
    )


def _describe(members: Sequence[tuple[CpuOp, RecordedBlocker]]) -> FindingText:
    blocker = members[0][1]
    copied = _is_copied(blocker)
    other = blocker.copied_from if copied else blocker.type
    asked = _fixes(members)
    elsewhere = Fix(text=f"See what keeps {other} on the CPU: where it goes, these go, too.")
    return FindingText(
        title=f"{ops_text(members)} on the CPU by colocation with {other}",
        why=(
            f"Ops that are colocated get one device. These were made colocated with {other}, "
            + (
                f"and so got its request for {device_text(blocker.requested_device)}."
                if copied
                else f"and {blocker_text(blocker)}: so none of the group can be on a GPU."
            )
        ),
        harm="harmful",
        fixes=asked or (elsewhere,),
    )


def _fixes(members: Sequence[tuple[CpuOp, RecordedBlocker]]) -> tuple[Fix, ...]:
    """Return how to take away what lines of the program ask for; nothing where none does."""
    made = {(op.file, op.line, op.name) for op, _ in members}
    frames = ((by.frame, by.name) for _, by in members)
    made |= {(frame.file, frame.line, name) for frame, name in frames if frame is not None}
    asked = {asked_by(*each) for each in made}
    fixes = []
    for way, (text, code) in _TAKEN_AWAY.items():
        lines = sorted({(a.file, a.line) for a in asked if a is not None and a.way == way})
        if lines:
            at = listed([f"{PurePosixPath(file).name}:{line}" for file, line in lines])
            fixes.append(Fix(text=text.format(at), code=code))
    return tuple(fixes)


def _is_copied(blocker: RecordedBlocker) -> bool:
    return (
        blocker.link == "own"
        and blocker.kind is BlockerKind.REQUEST
        and bool(blocker.copied_from)
        and not is_of_strategy(blocker)
    )


def _at_node(name: str, text: str) -> Evidence:
    return line_evidence("colocation", text, None, CaptureFileWhere(sidecar=f"node {name}"))


CAUSE = Cause(
    id="colocation_group",
    title="Its colocation group keeps it on the CPU",
    documentation=__doc__,
    match=_match,
    describe=_describe,
)
