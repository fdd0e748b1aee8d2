"""Colocated with an op on the CPU.

## What it detects

Ops with a `_class` attribute that binds them to another op, if that op keeps the group on the CPU.

## Why it happens

All ops of a group get one device, which must suit each of them (colocation_graph.cc): one member
without a GPU kernel keeps the whole group on the CPU. `tf.compat.v1.colocate_with` makes such
groups. So do gradients that are colocated with the forward pass, and optimizer slots.
`colocate_with` also copies the other op's requested device, so the op looks as if it requested the
CPU itself.

## How to fix it

If the program requests the colocation, remove it: drop `colocate_with`, and the argument
`colocate_gradients_with_ops` of `tf.compat.v1.gradients`; use `tf.GradientTape` instead of
`tf.gradients`, which always colocates. TensorFlow itself colocates an optimizer's slots with their
variable, and they move with it. Otherwise fix what keeps the named member on the CPU.

## How sure it is

Certain: the capture recorded the attribute, and a replay of the placement shows which member keeps
the group on the CPU.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from traceanalyzer.causes._cause import Cause, CauseMatch, FindingText
from traceanalyzer.causes.knowledge.colocating_lines import colocation_request
from traceanalyzer.causes.knowledge.finding_text import (
    Members,
    blocker_scope,
    blocker_text,
    is_of_strategy,
    observed,
    ops_text,
)
from traceanalyzer.format import listed
from traceanalyzer.model import Evidence, Fix
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.devices import device_text

if TYPE_CHECKING:
    from traceanalyzer.causes.knowledge.colocating_lines import Form
    from traceanalyzer.cpu_ops import CpuOp
    from traceanalyzer.placement.blocker import Blocker

_WITHOUT: Final[dict[Form, tuple[str, str]]] = {
    "scope": (
        "Create these ops outside `colocate_with` ({}).",
        "with tf.compat.v1.colocate_with(None, ignore_existing=True): ...",
    ),
    "argument": (
        "Drop `colocate_gradients_with_ops` from the call at {}.",
        "gradients = tf.compat.v1.gradients(loss, variables)",
    ),
    "gradients": (
        "Compute the gradients at {} with `tf.GradientTape`, which does not colocate them.",
        "with tf.GradientTape() as tape: ...\ngradients = tape.gradient(loss, variables)",
    ),
}


def match(cpu_op: CpuOp, blocker: Blocker) -> CauseMatch | None:
    if _is_copied(blocker):
        device = device_text(blocker.requested_device)
        text = f"it is colocated with {blocker.copied_from} and gets its requested device, {device}"
        return CauseMatch(
            scope=f"{cpu_op.function} {cpu_op.explanation.type} has the request for {device}",
            evidence=(_at_node(blocker.name or cpu_op.name, text),),
            sub_reason="copied_request",
        )
    if blocker.link != "class":
        return None
    text = f"its `_class` attribute colocates it with {blocker.name or blocker.type}"
    where = f"node {blocker.name}" if blocker.name else ""
    frame = blocker.scope_frame or blocker.frame
    return CauseMatch(
        scope=blocker_scope(blocker),
        evidence=(
            _at_node(cpu_op.name, text),
            observed("blocker", blocker_text(blocker), where, line=frame),
        ),
    )


def describe(members: Members) -> FindingText:
    blocker = members[0][1]
    if _is_copied(blocker):
        other = blocker.copied_from
        so = f"so they get its requested device, {device_text(blocker.requested_device)}"
    else:
        other = blocker.type
        so = f"and {blocker_text(blocker)}, so none of the group can run on a GPU"
    follow = Fix(text=f"Fix what keeps {other} on the CPU: these ops follow it.")
    return FindingText(
        title=f"Colocation with {other} keeps {ops_text(members)} on the CPU",
        why=f"Colocated ops get one device. These are colocated with {other}, {so}.",
        harm="harmful",
        fixes=_fixes(members) or (follow,),
    )


def _fixes(members: Members) -> tuple[Fix, ...]:
    """Return how to remove the colocations that the program's own lines request."""
    made = {(op.file, op.line, op.name) for op, _ in members}
    made |= {(b.frame.file, b.frame.line, b.name) for _, b in members if b.frame is not None}
    requested = [found for each in made if (found := colocation_request(*each)) is not None]
    fixes = []
    for form, (text, code) in _WITHOUT.items():
        lines = sorted({(each.file, each.line) for each in requested if each.form == form})
        if lines:
            at = listed([f"{PurePosixPath(file).name}:{line}" for file, line in lines])
            fixes.append(Fix(text=text.format(at), code=code))
    return tuple(fixes)


def _is_copied(blocker: Blocker) -> bool:
    return (
        blocker.link == "own"
        and blocker.kind is BlockerKind.REQUEST
        and bool(blocker.copied_from)
        and not is_of_strategy(blocker)
    )


def _at_node(name: str, text: str) -> Evidence:
    return observed("colocation", text, f"node {name}")


CAUSE = Cause(__name__, "Colocated with an op on the CPU", __doc__, match=match, describe=describe)
