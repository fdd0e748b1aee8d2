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

from traceanalyzer.capture_file.frames import lines_text, same_place
from traceanalyzer.causes._cause import Cause, CauseMatch, FindingText
from traceanalyzer.causes.knowledge.finding_text import (
    function_text,
    is_of_call,
    is_of_strategy,
    is_only_blocker,
    line_evidence,
    ops_text,
    runs_for_dataset,
)
from traceanalyzer.model import CaptureFileWhere, Fix
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.devices import asks_for_cpu, device_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.evidence.analysis import CpuOp
    from traceanalyzer.evidence.recorded_blockers import RecordedBlocker


def _match(cpu_op: CpuOp, blocker: RecordedBlocker) -> CauseMatch | None:
    if blocker.link != "own":
        return None
    if blocker.kind is BlockerKind.REQUEST and is_of_call(blocker) and not is_of_strategy(blocker):
        return _called_in_scope(cpu_op, blocker, str(blocker.scope))
    if blocker.kind is not BlockerKind.DEFAULT_DEVICE:
        return None
    if blocker.for_step or runs_for_dataset(cpu_op, blocker):
        return None
    function = function_text(cpu_op, blocker)
    if blocker.call is None:
        where = CaptureFileWhere(sidecar=f"function {blocker.function or function}")
        text = f"the call of {function} within another function was placed on the CPU"
        return CauseMatch(
            scope=f"{function} called within a function",
            evidence=(line_evidence("default_device", text, None, where),),
            certainty="likely",
            sub_reason="called_within_a_function",
        )
    return _called_in_scope(cpu_op, blocker, blocker.call.scope)


def _called_in_scope(cpu_op: CpuOp, blocker: RecordedBlocker, scope: str) -> CauseMatch:
    function = function_text(cpu_op, blocker)
    device = device_text(scope)
    where = CaptureFileWhere(
        sidecar=f"call of {function if blocker.call is None else blocker.call.op}"
    )
    text = f'{function} was called within tf.device("{device}")'
    frame = blocker.scope_frame
    return CauseMatch(
        scope=f"{function} {same_place(frame)} {device}",
        evidence=(line_evidence("default_device", text, frame, where),),
        certainty="certain" if asks_for_cpu(scope) else "likely",
    )


def _describe(members: Sequence[tuple[CpuOp, RecordedBlocker]]) -> FindingText:
    blocker = members[0][1]
    function = function_text(*members[0])
    lines = lines_text([h.scope_frame for _, h in members])
    if blocker.call is None and not blocker.called_in:
        within = "from a function, on the CPU"
        fixes = (Fix(text="See what puts that call on the CPU: all in the function follows it."),)
    else:
        device = device_text(blocker.scope or "" if blocker.call is None else blocker.call.scope)
        within = f'within tf.device("{device}")' + (f" at {lines}" if lines else "")
        fixes = (
            Fix(
                text=(
                    "Call the function outside of the scope; put what must stay on the CPU into a "
                    "scope within the function."
                ),
                code=f'with tf.device("{device}"):  # '
                f"{f'{lines}: ' if lines else ''}not around {function}(...)",
                checked=is_only_blocker(members),
            ),
        )
    return FindingText(
        title=f"{function} was called {within}: {ops_text(members)} ran there",
        why=(
            f"Where {function} is called is the default device of all in it. These ops ask "
            "for no device, so they took it; the graph of the function shows no request."
        ),
        harm="harmful",
        fixes=fixes,
    )


CAUSE = Cause(
    id="caller_device_scope_cpu",
    title="Called where the CPU is asked for",
    documentation=__doc__,
    match=_match,
    describe=_describe,
)
