"""It uses a resource that is on the CPU.

## What it detects

Ops that read, write or look something up in a variable, table, iterator, queue or other resource
that is on the CPU; or that share one with an op which keeps it there.

## Why it happens

An op runs where its resource is: that outweighs `tf.device`, eagerly (placement_utils.cc,
`MaybePinToResourceDevice`) and in graphs (colocation_graph.cc). A resource is on the CPU because a
scope asked for that when it was made, of which several may lie one around the other and each ask by
itself; because there is no GPU kernel for it, as for hash tables and for variables of int32 or
strings; or because one of its users has none.

## How to fix it

Make the variable where it is used: outside of a scope for the CPU, and not as int32. A table too
large for the GPU can stay; gather from it what the step needs and compute on the GPU from there.
Lookups in hash tables belong into the input pipeline.

## How sure it is

Certain where the capture recorded where the resource is. Which op shares it, and has no GPU kernel,
is found by a replay of the placement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.capture_file.frames import library_of, lines_text, same_place
from traceanalyzer.causes._cause import Cause, CauseMatch, FindingText
from traceanalyzer.causes.knowledge.finding_text import (
    blocker_text,
    is_of_strategy,
    is_only_blocker,
    line_evidence,
    ops_text,
)
from traceanalyzer.causes.knowledge.host_work import LESS_SUMMARIES, QUEUES
from traceanalyzer.causes.knowledge.library_switches import fixes_of_variables
from traceanalyzer.placement.retyping import XLA_REFUSES
from traceanalyzer.model import CaptureFileWhere, Fix
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.devices import device_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.capture_file.document import Frame
    from traceanalyzer.evidence.analysis import CpuOp
    from traceanalyzer.placement.blocker import Blocker

_ELSEWHERE = frozenset({BlockerKind.ASSIGNED, BlockerKind.RESOURCE})
_WITHOUT_KERNEL = "int32"  # `VarHandleOp` has no GPU kernel for it
_TENSORFLOW = "TensorFlow"


def _match(cpu_op: CpuOp, blocker: Blocker) -> CauseMatch | None:
    is_elsewhere = blocker.link == "own" and blocker.kind in _ELSEWHERE
    if not is_elsewhere and blocker.link != "resource":
        return None
    if is_of_strategy(blocker):
        return None
    name = _name(blocker)
    if blocker.kind in _ELSEWHERE:
        device = device_text(blocker.requested_device) or "the CPU"
        where = CaptureFileWhere(
            sidecar=f"resource {name}" if name else "arguments of the function"
        )
        text = f"{name or 'the resource'} is on {device}"
        frame = _line_of_scope(blocker)
        if frame is not None:
            text += f': made within tf.device("{device_text(blocker.scope or "")}")'
        evidence = [line_evidence("resource_device", text, frame, where)]
        if blocker.made_at is not None:
            evidence.append(line_evidence("resource", "the resource is made here", blocker.made_at))
        return CauseMatch(
            scope=f"{name or cpu_op.function} {device}",
            evidence=tuple(evidence),
            sub_reason="placed_elsewhere",
            line=None if frame is None else (frame.file, frame.line),
        )
    where = CaptureFileWhere(
        sidecar=f"node {blocker.name}" if blocker.name else f"op {blocker.type}"
    )
    evidence = [
        line_evidence("shared_resource", f"it shares a resource with {blocker.type}", None, where),
        line_evidence(
            "blocker", blocker_text(blocker), blocker.scope_frame or blocker.frame, where
        ),
    ]
    attributes = " ".join(f"{k}={v}" for k, v in sorted(blocker.attributes.items()))
    return CauseMatch(
        scope=f"{blocker.type} {blocker.kind.value} {attributes} {same_place(blocker.scope_frame)}",
        evidence=tuple(evidence),
        sub_reason="kept_by_its_maker" if _makes(blocker.type) else "kept_by_another_user",
    )


def _describe(members: Sequence[tuple[CpuOp, Blocker]]) -> FindingText:
    blocker = members[0][1]
    name = _name(blocker)
    ops = ops_text(members)
    if blocker.kind in _ELSEWHERE:
        device = device_text(blocker.requested_device) or "the CPU"
        made = lines_text([h.made_at for _, h in members])
        reason = f"{f'the resource {name}' if name else 'a resource'} is on {device}"
        reason += f" (made at {made})" if made else ""
        library = _library(members)
        reason += f", where {library} puts it" if library else ""
        title = f"{reason[:1].upper()}{reason[1:]}, and {ops} with it"
    else:
        reason = f"they share a resource with {blocker.type}, and {blocker_text(blocker)}"
        title = f"{blocker.type} keeps a resource on the CPU, and {ops} with it"
    return FindingText(
        title=title,
        why=(
            "An op runs where the resource is that it uses, whatever it is asked to and whatever "
            f"kernels it has; and {reason}."
            + (XLA_REFUSES if _dtype(blocker) == _WITHOUT_KERNEL else "")
        ),
        harm=(
            "by_design"
            if _is_for_the_host(members)
            or _library(members) == _TENSORFLOW
            or _is_of_a_queue(blocker)
            else "harmful"
        ),
        fixes=_fixes(members),
    )


def _fixes(members: Sequence[tuple[CpuOp, Blocker]]) -> tuple[Fix, ...]:
    blocker = members[0][1]
    dtype = _dtype(blocker)
    if (fix := _fix_on_the_host(members)) is not None:
        return (fix,)
    if library := _library(members):
        return (_fix_for_library(members, library),)
    if dtype == _WITHOUT_KERNEL:
        return tuple(fixes_of_variables(dtype, (h for _, h in members)))
    if "Table" in blocker.type:
        return (
            Fix(
                text="Hash tables have CPU kernels only: look up in the input pipeline.",
                code="dataset = dataset.map(lambda x: table.lookup(x)).prefetch(tf.data.AUTOTUNE)",
            ),
        )
    if blocker.kind not in _ELSEWHERE:
        lines = lines_text([h.frame for _, h in members])
        at = f" ({lines})" if lines else ""
        return (
            Fix(
                text=(
                    f"Replace {blocker.type}{at} by an op with a GPU kernel, or give it its copy "
                    "of the value: all that share the resource move with it."
                ),
            ),
        )
    made_in = [frame for member in members for frame in _lines_of_scopes(*member)]
    lines = lines_text(made_in)
    at = f" at {lines}" if lines else ""
    scopes = "every scope" if len(set(made_in)) > 1 else "the scope"
    return (
        Fix(
            text=(
                f"Make it outside of {scopes} for the CPU{at}. If it is to stay in host memory, "
                "read from it only what the step needs, and compute outside of it."
            ),
            checked=bool(lines) and is_only_blocker(members),
        ),
    )


def _fix_on_the_host(members: Sequence[tuple[CpuOp, Blocker]]) -> Fix | None:
    """Return what to do about resources that belong on the host; None for others."""
    if all(_is_of_a_queue(blocker) for _, blocker in members):
        return QUEUES.fix
    if not _is_for_the_host(members):
        return None
    if all("Summary" in cpu_op.explanation.type for cpu_op, _ in members):
        return LESS_SUMMARIES
    return Fix(text="Nothing about where it is; use it less often if it takes time.")


def _is_of_a_queue(blocker: Blocker) -> bool:
    """Return whether an op on a queue, or on a reader of files, keeps it on the host."""
    return blocker.kind not in _ELSEWHERE and QUEUES.types.fullmatch(blocker.type) is not None


def _is_for_the_host(members: Sequence[tuple[CpuOp, Blocker]]) -> bool:
    """Return whether no resource here could be on a GPU: strings, and what writes files."""
    used = [(s, h) for s, h in members if s.explanation.type != "DestroyResourceOp"]
    return bool(used) and all(
        _dtype(blocker) == "string" or "Summary" in cpu_op.explanation.type
        for cpu_op, blocker in used
    )


def _fix_for_library(members: Sequence[tuple[CpuOp, Blocker]], library: str) -> Fix:
    if library == _TENSORFLOW:
        return Fix(text=f"The scope is one of {library}'s own; use it less often if it takes time.")
    lines = lines_text([blocker.scope_frame for _, blocker in members])
    return Fix(
        text=(
            f"The scope is one of {library}'s own ({lines}): move what it goes by (the variables "
            "of an optimizer are beside those of the model), or see whether the library has an "
            "option for the device."
        ),
    )


def _library(members: Sequence[tuple[CpuOp, Blocker]]) -> str:
    """Return whose scope the resources were made in, "" where it is not that of a library."""
    frames = [blocker.scope_frame if blocker.kind in _ELSEWHERE else None for _, blocker in members]
    if any(frame is None or frame.is_user for frame in frames):
        return ""
    return next(library_of(frame) for frame in frames if frame is not None)


def _dtype(blocker: Blocker) -> str:
    told = blocker.attributes.get("dtype")
    if isinstance(told, str):
        return told
    if blocker.kind in _ELSEWHERE and blocker.scope is None and blocker.resource is not None:
        return blocker.resource.dtype
    return ""


def _lines_of_scopes(cpu_op: CpuOp, blocker: Blocker) -> list[Frame]:
    """Return the lines of the scopes that the resource of what holds an op was made in, each."""
    same = [
        h
        for h in cpu_op.explanation.blockers
        if h.kind in _ELSEWHERE and h.resource == blocker.resource
    ]
    frames = map(_line_of_scope, same or [blocker])
    return [frame for frame in frames if frame is not None]


def _line_of_scope(blocker: Blocker) -> Frame | None:
    return None if blocker.scope is None else blocker.scope_frame


def _name(blocker: Blocker) -> str:
    return "" if blocker.resource is None else blocker.resource.name


def _makes(op_type: str) -> bool:
    return "Handle" in op_type or op_type.startswith(("HashTable", "Anonymous", "Mutable"))


CAUSE = Cause(
    id="resource_on_cpu",
    title="It uses a resource that is on the CPU",
    documentation=__doc__,
    match=_match,
    describe=_describe,
)
