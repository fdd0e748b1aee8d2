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

from traceanalyzer.evidence.colocating_lines import asked_by
from traceanalyzer.evidence.examples import held, line, subject
from traceanalyzer.evidence.places import (
    device_text,
    hold_text,
    is_of_strategy,
    line_evidence,
    ops_text,
    same_place,
)
from traceanalyzer.model import Fix, SidecarWhere
from traceanalyzer.placement.blockers import Hold
from traceanalyzer.rules._rule import BlockerExample, Mark, Rule, Words
from traceanalyzer.wording import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.evidence.analysis import Subject
    from traceanalyzer.evidence.colocating_lines import Way
    from traceanalyzer.evidence.held import Held
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


def _recognises(subject: Subject, held: Held) -> Mark | None:
    if _is_copied(held):
        device = device_text(held.asked)
        text = f"it is colocated with {held.copied_from}, and has its request for {device}"
        return Mark(
            scope=f"{subject.function} {subject.case.type} has the request for {device}",
            evidence=(_at_node(held.name or subject.name, text),),
            sub_reason="copied_request",
        )
    if held.link != "class":
        return None
    attributes = " ".join(f"{k}={v}" for k, v in sorted(held.attributes.items()))
    return Mark(
        scope=f"{held.type} {held.hold.value} {attributes} {same_place(held.scope_frame)}",
        evidence=(
            _at_node(subject.name, f"it is colocated with {held.name or held.type} by `_class`"),
            line_evidence(
                "blocker",
                hold_text(held),
                held.scope_frame or held.frame,
                SidecarWhere(sidecar=f"node {held.name}") if held.name else None,
            ),
        ),
    )


def _words(members: Sequence[tuple[Subject, Held]]) -> Words:
    held = members[0][1]
    copied = _is_copied(held)
    other = held.copied_from if copied else held.type
    asked = _fixes(members)
    elsewhere = Fix(text=f"See what keeps {other} on the CPU: where it goes, these go, too.")
    return Words(
        title=f"{ops_text(members)} on the CPU by colocation with {other}",
        why=(
            f"Ops that are colocated get one device. These were made colocated with {other}, "
            + (
                f"and so got its request for {device_text(held.asked)}."
                if copied
                else f"and {hold_text(held)}: so none of the group can be on a GPU."
            )
        ),
        harm="harmful",
        fixes=asked or (elsewhere,),
    )


def _fixes(members: Sequence[tuple[Subject, Held]]) -> tuple[Fix, ...]:
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


def _is_copied(held: Held) -> bool:
    return (
        held.link == "own"
        and held.hold is Hold.REQUEST
        and bool(held.copied_from)
        and not is_of_strategy(held)
    )


def _at_node(name: str, text: str) -> Evidence:
    return line_evidence("colocation", text, None, SidecarWhere(sidecar=f"node {name}"))


RULE = Rule(
    id="colocation_group",
    title="Its colocation group keeps it on the CPU",
    documentation=__doc__,
    recognises=_recognises,
    words=_words,
    blocker_examples=(
        BlockerExample(
            title="an op that is colocated with one that has no GPU kernel",
            subject=subject("MatMul"),
            held=held("no_kernel", "StringJoin", "class", name="join"),
            fires=True,
        ),
        BlockerExample(
            title="a forward op whose gradient no GPU kernel takes",
            subject=subject("Mean"),
            held=held("attributes", "DynamicStitch", "class", attributes={"T": "int8"}),
            fires=True,
        ),
        BlockerExample(
            title="a group of which one member is asked onto the CPU",
            subject=subject("Mul"),
            held=held("request", "Add", "class", asked="/device:CPU:0", scope_frame=line(6)),
            fires=True,
        ),
        BlockerExample(
            title="a request that is another op's",
            subject=subject("Mul"),
            held=held("request", "Mul", asked="/device:CPU:0", copied_from="encoder/Add"),
            fires=True,
        ),
        BlockerExample(
            title="a request of its own",
            subject=subject("Mul"),
            held=held("request", "Mul", asked="/device:CPU:0", scope_frame=line(6)),
            fires=False,
        ),
        BlockerExample(
            title="an op that shares a variable with one that has no GPU kernel",
            subject=subject("ReadVariableOp"),
            held=held("no_kernel", "ResourceScatterNdMax", "resource"),
            fires=False,
        ),
        BlockerExample(
            title="an op that follows its input",
            subject=subject("Identity"),
            held=held("no_kernel", "StringJoin", "follows"),
            fires=False,
        ),
    ),
)
