"""A function was called where the CPU is asked for.

## What it detects

Ops of a `tf.function` that ran on the CPU because the call of their function was placed there: it
was made within a `tf.device` scope for the CPU, by the program or within another function.

## Why it happens

A call is an op too: under `tf.device("/CPU:0")` it is placed on the CPU, and where a call is placed
is the default device of its function's body (process_function_library_runtime.cc). Everything in
it that asks for nothing goes there if it has a CPU kernel; what asks for a GPU still gets it. The
graph of the function shows none of this, so the line to change is that of the caller.

## How to fix it

Call the function outside of the scope. What must be on the CPU can ask for it within.

## How sure it is

Certain where the capture recorded the call and its scope. Likely where another function made the
call: a replay shows that it was placed on the CPU, and its own cause is that of the call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.evidence.examples import held, line, subject
from traceanalyzer.evidence.places import (
    asks_for_cpu,
    device_text,
    function_text,
    is_alone,
    is_of_call,
    is_of_strategy,
    line_evidence,
    lines_text,
    ops_text,
    runs_for_dataset,
    same_place,
)
from traceanalyzer.model import Fix, SidecarWhere
from traceanalyzer.placement.blockers import Hold
from traceanalyzer.rules._rule import BlockerExample, Mark, Rule, Words
from traceanalyzer.sidecar.document import Signature

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.evidence.analysis import Subject
    from traceanalyzer.evidence.held import Held


def _recognises(subject: Subject, held: Held) -> Mark | None:
    if held.link != "own":
        return None
    if held.hold is Hold.REQUEST and is_of_call(held) and not is_of_strategy(held):
        return _called_in_scope(subject, held, str(held.scope))
    if held.hold is not Hold.DEFAULT_DEVICE:
        return None
    if held.for_step or runs_for_dataset(subject, held):
        return None
    function = function_text(subject, held)
    if held.call is None:
        where = SidecarWhere(sidecar=f"function {held.function or function}")
        text = f"the call of {function} within another function was placed on the CPU"
        return Mark(
            scope=f"{function} called within a function",
            evidence=(line_evidence("default_device", text, None, where),),
            certainty="likely",
            sub_reason="called_within_a_function",
        )
    return _called_in_scope(subject, held, held.call.scope)


def _called_in_scope(subject: Subject, held: Held, scope: str) -> Mark:
    function = function_text(subject, held)
    device = device_text(scope)
    where = SidecarWhere(sidecar=f"call of {function if held.call is None else held.call.op}")
    text = f'{function} was called within tf.device("{device}")'
    frame = held.scope_frame
    return Mark(
        scope=f"{function} {same_place(frame)} {device}",
        evidence=(line_evidence("default_device", text, frame, where),),
        certainty="certain" if asks_for_cpu(scope) else "likely",
    )


def _words(members: Sequence[tuple[Subject, Held]]) -> Words:
    held = members[0][1]
    function = function_text(*members[0])
    lines = lines_text([h.scope_frame for _, h in members])
    if held.call is None and not held.called_in:
        within = "from a function, on the CPU"
        fixes = (Fix(text="See what puts that call on the CPU: all in the function follows it."),)
    else:
        device = device_text(held.scope or "" if held.call is None else held.call.scope)
        within = f'within tf.device("{device}")' + (f" at {lines}" if lines else "")
        fixes = (
            Fix(
                text=(
                    "Call the function outside of the scope; put what must stay on the CPU into a "
                    "scope within the function."
                ),
                code=f'with tf.device("{device}"):  # '
                f"{f'{lines}: ' if lines else ''}not around {function}(...)",
                checked=is_alone(members),
            ),
        )
    return Words(
        title=f"{function} was called {within}: {ops_text(members)} ran there",
        why=(
            f"Where {function} is called is the default device of all in it. These ops ask "
            "for no device, so they took it; the graph of the function shows no request."
        ),
        harm="harmful",
        fixes=fixes,
    )


_CALL = Signature(
    op="__inference_train_step_9",
    is_function=True,
    scope="/job:localhost/replica:0/task:0/device:CPU:0",
    scope_frame=-1,
    frame=-1,
    attributes=-1,
    inputs=(),
    outputs=(),
)

RULE = Rule(
    id="caller_device_scope_cpu",
    title="Called where the CPU is asked for",
    documentation=__doc__,
    recognises=_recognises,
    words=_words,
    blocker_examples=(
        BlockerExample(
            title="an op of a function that was called in a scope for the CPU",
            subject=subject("MatMul"),
            held=held("default_device", "MatMul", asked="/device:CPU:0", call=_CALL),
            fires=True,
        ),
        BlockerExample(
            title="the same, and the line that opened the scope is known",
            subject=subject("Conv2D"),
            held=held(
                "default_device",
                "Conv2D",
                asked="/device:CPU:0",
                call=_CALL,
                scope=_CALL.scope,
                scope_frame=line(88),
            ),
            fires=True,
        ),
        BlockerExample(
            title="an op of a function that another one calls in a scope for the CPU",
            subject=subject("MatMul"),
            held=held(
                "request",
                "MatMul",
                asked="/device:CPU:0",
                scope="/CPU:0",
                scope_frame=line(31),
                called_in="__inference_teacher_4",
            ),
            fires=True,
        ),
        BlockerExample(
            title="an op of a function that another one calls",
            subject=subject("MatMul"),
            held=held("default_device", "MatMul", function="__inference_inner_4"),
            fires=True,
        ),
        BlockerExample(
            title="an op of a function that a dataset calls",
            subject=subject("MatMul"),
            held=held("default_device", "MatMul", function="__inference_Dataset_map_f_12"),
            fires=False,
        ),
        BlockerExample(
            title="an op that asks for the CPU itself",
            subject=subject("MatMul"),
            held=held("request", "MatMul", asked="/device:CPU:0"),
            fires=False,
        ),
        BlockerExample(
            title="an op that follows one of such a function",
            subject=subject("Identity"),
            held=held("default_device", "MatMul", "follows", call=_CALL),
            fires=False,
        ),
    ),
)
