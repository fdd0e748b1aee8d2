"""Function called inside a CPU scope.

## What it detects

Ops of a `tf.function` that ran on the CPU because the call of the function was placed there: the
program, or another function, made the call inside a `tf.device` scope for the CPU.

## Why it happens

A call is an op too. Inside `tf.device("/CPU:0")` it is placed on the CPU, and the device of the
call is the default device of the function's body (process_function_library_runtime.cc). All ops
without a requested device go there if they have a CPU kernel; ops that request a GPU still get it.
The function's graph shows none of this, so the line to change is the caller's.

## How to fix it

Call the function outside the scope. Ops that must run on the CPU can request it inside the
function.

## How sure it is

Certain if the capture recorded the call and its scope. Likely if another function made the call: a
replay shows that the call was placed on the CPU, but not why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.capture_file.frames import lines_text, same_place
from traceanalyzer.causes._cause import Cause, CauseMatch, FindingText
from traceanalyzer.causes.knowledge.finding_text import (
    Members,
    function_text,
    is_of_call,
    is_of_strategy,
    is_only_blocker,
    observed,
    ops_text,
    runs_for_dataset,
)
from traceanalyzer.model import Fix
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.devices import asks_for_cpu, device_text

if TYPE_CHECKING:
    from traceanalyzer.cpu_ops import CpuOp
    from traceanalyzer.placement.blocker import Blocker


def match(cpu_op: CpuOp, blocker: Blocker) -> CauseMatch | None:
    if blocker.link != "own":
        return None
    if blocker.kind is BlockerKind.REQUEST:
        is_own = is_of_call(blocker) and not is_of_strategy(blocker)
        return _called_in_scope(cpu_op, blocker, str(blocker.scope)) if is_own else None
    if (
        blocker.kind is not BlockerKind.DEFAULT_DEVICE
        or blocker.for_step
        or runs_for_dataset(cpu_op, blocker)
    ):
        return None
    if blocker.call is not None:
        return _called_in_scope(cpu_op, blocker, blocker.call.scope)
    function = function_text(cpu_op, blocker)
    where = f"function {blocker.function or function}"
    text = f"another function's call of {function} was placed on the CPU"
    return CauseMatch(
        scope=f"{function} called within a function",
        evidence=(observed("default_device", text, where),),
        certainty="likely",
        sub_reason="called_within_a_function",
    )


def _called_in_scope(cpu_op: CpuOp, blocker: Blocker, scope: str) -> CauseMatch:
    function = function_text(cpu_op, blocker)
    device, frame = device_text(scope), blocker.scope_frame
    where = f"call of {function if blocker.call is None else blocker.call.op}"
    text = f'{function} was called inside tf.device("{device}")'
    return CauseMatch(
        scope=f"{function} {same_place(frame)} {device}",
        evidence=(observed("default_device", text, where, line=frame),),
        certainty="certain" if asks_for_cpu(scope) else "likely",
    )


def describe(members: Members) -> FindingText:
    blocker = members[0][1]
    function = function_text(*members[0])
    if blocker.call is None and not blocker.called_in:
        called = "by a function, on the CPU"
        fix = Fix(text="Find out what puts that call on the CPU: the whole function follows it.")
    else:
        device = device_text(blocker.scope or "" if blocker.call is None else blocker.call.scope)
        lines = lines_text(blocker.scope_frame for _, blocker in members)
        called = f'inside tf.device("{device}")' + (f" at {lines}" if lines else "")
        place = f"{lines}: " if lines else ""
        fix = Fix(
            text=(
                "Call the function outside the scope. Put ops that must stay on the CPU in a scope "
                "inside the function."
            ),
            code=f'with tf.device("{device}"):  # {place}not around {function}(...)',
            checked=is_only_blocker(members),
        )
    return FindingText(
        title=f"{function} is called {called}, so {ops_text(members)} ran there",
        why=(
            f"The device of a call of {function} is the default device of all ops inside it. These "
            "ops request no device, so they got it. The function's graph shows no request."
        ),
        harm="harmful",
        fixes=(fix,),
    )


CAUSE = Cause(
    __name__, "Function called inside a CPU scope", __doc__, match=match, describe=describe
)
