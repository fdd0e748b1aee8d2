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
    function_text,
    is_of_call,
    is_of_strategy,
    observed,
    runs_for_dataset,
)
from traceanalyzer.model import Fix
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.devices import asks_for_cpu, device_text

if TYPE_CHECKING:
    from traceanalyzer.causes.knowledge.blocked_ops import BlockedOps
    from traceanalyzer.cpu_ops import CpuOp
    from traceanalyzer.placement.blocker import Blocker


def match(cpu_op: CpuOp, blocker: Blocker) -> CauseMatch | None:
    if blocker.link != "own":
        return None
    if blocker.kind is BlockerKind.REQUEST:
        if not is_of_call(blocker) or is_of_strategy(blocker):
            return None
    elif (
        blocker.kind is not BlockerKind.DEFAULT_DEVICE
        or blocker.for_step
        or runs_for_dataset(cpu_op, blocker)
    ):
        return None
    function, scope = function_text(cpu_op, blocker), _scope(blocker)
    if scope is None:
        where = f"function {blocker.function or function}"
        text = f"another function's call of {function} was placed on the CPU"
        return CauseMatch(
            scope=f"{function} called within a function",
            evidence=(observed("default_device", text, where),),
            certainty="likely",
            sub_reason="called_within_a_function",
        )
    device, frame = device_text(scope), blocker.scope_frame
    where = f"call of {function if blocker.call is None else blocker.call.op}"
    text = f'{function} was called inside tf.device("{device}")'
    return CauseMatch(
        scope=f"{function} {same_place(frame)} {device}",
        evidence=(observed("default_device", text, where, line=frame),),
        certainty="certain" if asks_for_cpu(scope) else "likely",
    )


def _scope(blocker: Blocker) -> str | None:
    """Return the device of the scope around the call; None if another function called it."""
    if blocker.call is not None:
        return blocker.call.scope
    return str(blocker.scope) if blocker.called_in else None


def describe(ops: BlockedOps) -> FindingText:
    function, scope = function_text(*ops.members[0]), _scope(ops.blocker)
    if scope is None:
        called = "by a function, on the CPU"
        fix = Fix(text="Find out what puts that call on the CPU: the whole function follows it.")
    else:
        device = device_text(scope)
        lines = lines_text(blocker.scope_frame for blocker in ops.blockers)
        called = f'inside tf.device("{device}")' + (f" at {lines}" if lines else "")
        place = f"{lines}: " if lines else ""
        fix = Fix(
            text=(
                "Call the function outside the scope. Put ops that must stay on the CPU in a scope "
                "inside the function."
            ),
            code=f'with tf.device("{device}"):  # {place}not around {function}(...)',
            checked=ops.have_no_other_blocker,
        )
    return FindingText(
        title=f"{function} is called {called}, so {ops.text} ran there",
        why=(
            f"The device of a call of {function} is the default device of all ops inside it. These "
            "ops request no device, so they got it. The function's graph shows no request."
        ),
        harm="harmful",
        fixes=(fix,),
    )


CAUSE = Cause(__name__, __doc__, match=match, describe=describe)
