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

from traceanalyzer.capture_file.frames import lines_text, same_place
from traceanalyzer.causes._cause import Cause, CauseMatch, FindingText
from traceanalyzer.causes.knowledge.finding_text import (
    is_of_call,
    is_of_strategy,
    is_only_blocker,
    line_evidence,
    ops_text,
)
from traceanalyzer.model import CaptureFileWhere, Fix
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.devices import device_text
from traceanalyzer.wording import listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.evidence.analysis import CpuOp
    from traceanalyzer.evidence.recorded_blockers import RecordedBlocker


def _match(cpu_op: CpuOp, blocker: RecordedBlocker) -> CauseMatch | None:
    if blocker.kind is not BlockerKind.REQUEST or blocker.link != "own" or blocker.copied_from:
        return None
    if is_of_call(blocker):
        return None
    if is_of_strategy(blocker) or (
        blocker.scope_frame is not None and not blocker.scope_frame.is_user
    ):
        return None
    device = device_text(blocker.scope or blocker.requested_device)
    if blocker.scope_frame is not None:
        text = f'tf.device("{device}") is entered here'
        place, sub_reason = same_place(blocker.scope_frame), None
    else:
        name = blocker.name or blocker.type
        text = f"{device} is asked for {name}; which line does was not recorded"
        place, sub_reason = cpu_op.function, "request_without_a_line"
    where = CaptureFileWhere(sidecar=f"requested device of {blocker.name or blocker.type}")
    return CauseMatch(
        scope=f"{place} {device}",
        evidence=(line_evidence("requested_device", text, blocker.scope_frame, where),),
        certainty="certain" if sub_reason is None else "likely",
        sub_reason=sub_reason,
        line=None
        if blocker.scope_frame is None
        else (blocker.scope_frame.file, blocker.scope_frame.line),
    )


def _describe(members: Sequence[tuple[CpuOp, RecordedBlocker]]) -> FindingText:
    device = device_text(members[0][1].scope or members[0][1].requested_device)
    lines = lines_text([blocker.scope_frame for _, blocker in members])
    asker = f'tf.device("{device}") at {lines}' if lines else f"A request for {device}"
    types = listed(list(dict.fromkeys(cpu_op.explanation.type for cpu_op, _ in members)))
    code = f'with tf.device("{device}"):  # {lines}: not around {types}' if lines else None
    moves = is_only_blocker(members)
    return FindingText(
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


CAUSE = Cause(
    id="explicit_cpu_placement",
    title="The program asks for the CPU",
    documentation=__doc__,
    match=_match,
    describe=_describe,
)
