"""The program asks for the CPU.

## What it detects

Ops for which the program itself asks for the CPU, by `tf.device`: in a scope that a line of its own
opens, or by a request in the graph.

## Why it happens

TensorFlow obeys: a request for the CPU holds, eagerly and in graphs, whatever kernels the op has
and however busy the devices are. Such scopes are often left from a time when an op had no GPU
kernel, or from a test.

## How to fix it

Take the op out of the scope, or take the scope away, and measure. Where the scope is there so that
a large table stays in host memory, keep that alone in it: what is computed from it need not be.

## How sure it is

Certain where the capture recorded the scope and the line that opened it. Likely where it recorded
a request of which no scope is known: a device function, or a graph that was loaded, can make one.
Why the scope was written is never certain: where what it keeps on the CPU is larger than the memory
of the GPU, that is likely (`memory_pressure` beside it); where it would fit easily, memory is ruled
out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.evidence.examples import held, line, subject
from traceanalyzer.evidence.places import (
    device_text,
    is_alone,
    is_of_call,
    is_of_strategy,
    line_evidence,
    lines_text,
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
    from traceanalyzer.evidence.held import Held


def _recognises(subject: Subject, held: Held) -> Mark | None:
    if held.hold is not Hold.REQUEST or held.link != "own" or held.copied_from:
        return None
    if is_of_call(held):
        return None
    if is_of_strategy(held) or (held.scope_frame is not None and not held.scope_frame.is_user):
        return None
    device = device_text(held.scope or held.asked)
    if held.scope_frame is not None:
        text = f'tf.device("{device}") is entered here'
        place, sub_reason = same_place(held.scope_frame), None
    else:
        text = f"{device} is asked for {held.name or held.type}; which line does was not recorded"
        place, sub_reason = subject.function, "request_without_a_line"
    where = SidecarWhere(sidecar=f"requested device of {held.name or held.type}")
    return Mark(
        scope=f"{place} {device}",
        evidence=(line_evidence("requested_device", text, held.scope_frame, where),),
        certainty="certain" if sub_reason is None else "likely",
        sub_reason=sub_reason,
        line=None if held.scope_frame is None else (held.scope_frame.file, held.scope_frame.line),
    )


def _words(members: Sequence[tuple[Subject, Held]]) -> Words:
    device = device_text(members[0][1].scope or members[0][1].asked)
    lines = lines_text([held.scope_frame for _, held in members])
    asker = f'tf.device("{device}") at {lines}' if lines else f"A request for {device}"
    types = listed(list(dict.fromkeys(subject.case.type for subject, _ in members)))
    code = f'with tf.device("{device}"):  # {lines}: not around {types}' if lines else None
    moves = is_alone(members)
    return Words(
        title=f"{asker} keeps {ops_text(members)} on the CPU",
        why=(
            "TensorFlow obeys a request for the CPU, whatever kernels an op has: nothing else "
            "decides."
        ),
        harm="harmful",
        fixes=(
            Fix(
                text=(
                    "Without the scope these ops are placed on the GPU."
                    if moves
                    else "Take these ops out of the scope; what else is named as keeping them on "
                    "the CPU must go too."
                ),
                code=code,
                checked=moves,
            ),
        ),
    )


RULE = Rule(
    id="explicit_cpu_placement",
    title="The program asks for the CPU",
    documentation=__doc__,
    recognises=_recognises,
    words=_words,
    blocker_examples=(
        BlockerExample(
            title="an op in a scope of the program",
            subject=subject("MatMul", requested_device="/device:CPU:0"),
            held=held(
                "request", "MatMul", asked="/device:CPU:0", scope="/CPU:0", scope_frame=line(6)
            ),
            fires=True,
        ),
        BlockerExample(
            title="an op of a graph that has a request and no recorded scope",
            subject=subject("MatMul", requested_device="/device:CPU:0"),
            held=held("request", "MatMul", name="tower/MatMul", asked="/device:CPU:0"),
            fires=True,
        ),
        BlockerExample(
            title="a scope of a library",
            subject=subject("LookupTableFindV2"),
            held=held(
                "request",
                "LookupTableFindV2",
                asked="/device:CPU:0",
                scope="CPU:0",
                scope_frame=line(
                    789,
                    is_user=False,
                    file="/lib/site-packages/keras/src/layers/preprocessing/index_lookup.py",
                ),
            ),
            fires=False,
        ),
        BlockerExample(
            title="a request that colocate_with copied from another op",
            subject=subject("MatMul"),
            held=held("request", "MatMul", asked="/device:CPU:0", copied_from="StringJoin"),
            fires=False,
        ),
        BlockerExample(
            title="a request for another member of its group",
            subject=subject("MatMul"),
            held=held("request", "Add", "class", asked="/device:CPU:0", scope_frame=line(6)),
            fires=False,
        ),
        BlockerExample(
            title="a scope around the call of its function",
            subject=subject("MatMul"),
            held=held("default_device", "MatMul", asked="/device:CPU:0"),
            fires=False,
        ),
    ),
)
