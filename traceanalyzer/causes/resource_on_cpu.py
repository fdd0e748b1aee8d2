"""Uses a resource on the CPU.

## What it detects

Ops that use a variable, table, iterator, queue, or other resource that is on the CPU; or that share
one with an op that keeps it there.

## Why it happens

An op runs where its resource is. That takes precedence over `tf.device`, eagerly
(`MaybePinToResourceDevice`, placement_utils.cc) and in graphs (colocation_graph.cc). A resource is
on the CPU because one or more nested scopes requested the CPU when it was created; because it has
no GPU kernel, like hash tables and variables of int32 or strings; or because one of its users has
none.

## How to fix it

Create the variable where it is used: outside CPU scopes, and not as int32. A table that is too
large for the GPU can stay; gather the rows that a step needs and compute on the GPU from there.
Move hash table lookups into the input pipeline.

## How sure it is

Certain if the capture recorded where the resource is. A replay of the placement finds which op
shares it and has no GPU kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.frames import library_of, lines_text
from traceanalyzer.causes._cause import Cause, CauseMatch, FindingText
from traceanalyzer.causes.knowledge.finding_text import (
    Members,
    blocker_scope,
    blocker_text,
    is_of_strategy,
    is_only_blocker,
    observed,
    ops_text,
)
from traceanalyzer.causes.knowledge.host_work import host_work_named
from traceanalyzer.causes.knowledge.library_code import fixes_of_variables
from traceanalyzer.model import Fix
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.devices import device_text
from traceanalyzer.placement.retyping import XLA_REFUSES

if TYPE_CHECKING:
    from traceanalyzer.capture_file.document import Frame
    from traceanalyzer.cpu_ops import CpuOp
    from traceanalyzer.placement.blocker import Blocker

_PLACED: Final = frozenset({BlockerKind.ASSIGNED, BlockerKind.RESOURCE})
_WITHOUT_KERNEL: Final = "int32"  # `VarHandleOp` has no GPU kernel for it
_TENSORFLOW: Final = "TensorFlow"
_QUEUES: Final = host_work_named("queue")


def match(cpu_op: CpuOp, blocker: Blocker) -> CauseMatch | None:
    is_placed = blocker.kind in _PLACED
    if blocker.link != "resource" and not (is_placed and blocker.link == "own"):
        return None
    if is_of_strategy(blocker):
        return None
    if is_placed:
        return _placed_elsewhere(cpu_op, blocker)
    node = f"node {blocker.name}" if blocker.name else f"op {blocker.type}"
    where = node
    frame = blocker.scope_frame or blocker.frame
    text = f"it shares a resource with {blocker.type}"
    return CauseMatch(
        scope=blocker_scope(blocker),
        evidence=(
            observed("shared_resource", text, where),
            observed("blocker", blocker_text(blocker), where, line=frame),
        ),
        sub_reason="kept_by_its_maker" if _makes(blocker.type) else "kept_by_another_user",
    )


def _placed_elsewhere(cpu_op: CpuOp, blocker: Blocker) -> CauseMatch:
    name, device = _name(blocker), device_text(blocker.requested_device) or "the CPU"
    frame = _scope_line(blocker)
    text = f"{name or 'the resource'} is on {device}"
    if frame is not None:
        text += f': created inside tf.device("{device_text(blocker.scope or "")}")'
    where = f"resource {name}" if name else "arguments of the function"
    evidence = [observed("resource_device", text, where, line=frame)]
    if blocker.made_at is not None:
        evidence.append(observed("resource", "the resource is created here", line=blocker.made_at))
    return CauseMatch(
        scope=f"{name or cpu_op.function} {device}",
        evidence=tuple(evidence),
        sub_reason="placed_elsewhere",
        line=None if frame is None else (frame.file, frame.line),
    )


def describe(members: Members) -> FindingText:
    blocker = members[0][1]
    ops, library = ops_text(members), _library(members)
    if blocker.kind in _PLACED:
        device = device_text(blocker.requested_device) or "the CPU"
        made = lines_text(blocker.made_at for _, blocker in members)
        resource = f"{_resource_text(blocker)}{f' ({made})' if made else ''}"
        by = f": {library} puts it there" if library else ""
        title = f"{resource} is on {device} and keeps {ops} there"
        if _dtype(blocker) == _WITHOUT_KERNEL and _name(blocker):
            variable = f"{resource[:1].lower()}{resource[1:]}"
            title = f"TensorFlow keeps int32 variables on the CPU: {variable}, and with it {ops}"
        why = f"{resource} is on {device}{by}."
    else:
        title = f"{blocker.type} keeps a resource on the CPU, and with it {ops}"
        why = f"These ops share a resource with {blocker.type}, and {blocker_text(blocker)}."
    is_by_design = _is_for_host(members) or library == _TENSORFLOW or _is_of_queue(blocker)
    return FindingText(
        title=title,
        why=(
            "An op runs where its resource is, whatever device is requested and whatever kernels "
            f"it has. {why}{XLA_REFUSES if _dtype(blocker) == _WITHOUT_KERNEL else ''}"
        ),
        harm="by_design" if is_by_design else "harmful",
        fixes=_fixes(members, library),
    )


def _fixes(members: Members, library: str) -> tuple[Fix, ...]:
    blocker = members[0][1]
    if all(_is_of_queue(blocker) for _, blocker in members):
        return (_QUEUES.as_fix,)
    if _is_for_host(members):
        if all("Summary" in cpu_op.explanation.type for cpu_op, _ in members):
            return (host_work_named("write_summary").as_fix,)
        return (Fix(text="The placement is right; use the resource less often if it takes time."),)
    if not library and _dtype(blocker) == _WITHOUT_KERNEL:
        return tuple(fixes_of_variables(_WITHOUT_KERNEL, (b for _, b in members)))
    return (_fix_for_library(members, library) if library else _fix(members),)


def _fix(members: Members) -> Fix:
    blocker = members[0][1]
    if "Table" in blocker.type:
        return Fix(
            text="Hash tables have only CPU kernels: look keys up in the input pipeline.",
            code="dataset = dataset.map(lambda x: table.lookup(x)).prefetch(tf.data.AUTOTUNE)",
        )
    if blocker.kind not in _PLACED:
        lines = lines_text(blocker.frame for _, blocker in members)
        at = f" ({lines})" if lines else ""
        return Fix(
            text=(
                f"Replace {blocker.type}{at} with an op that has a GPU kernel, or give it its own "
                "copy of the value: all ops that share the resource then move."
            ),
        )
    scopes = [frame for member in members for frame in _scope_lines(*member)]
    lines = lines_text(scopes)
    at = f" ({lines})" if lines else ""
    return Fix(
        text=(
            f"Create it outside the CPU scope{'s' if len(set(scopes)) > 1 else ''}{at}. If it must "
            "stay in host memory, read only what the step needs, and compute outside the scope."
        ),
        checked=bool(lines) and is_only_blocker(members),
    )


def _fix_for_library(members: Members, library: str) -> Fix:
    if library == _TENSORFLOW:
        return Fix(text=f"The scope is {library}'s own; use it less often if it takes time.")
    lines = lines_text(blocker.scope_frame for _, blocker in members)
    return Fix(
        text=(
            f"The scope is {library}'s own ({lines}). Move what it follows (an optimizer's "
            "variables follow the model's), or check whether the library has an option for the "
            "device."
        ),
    )


def _is_of_queue(blocker: Blocker) -> bool:
    """Return whether an op on a queue or a file reader keeps the resource on the host."""
    return blocker.kind not in _PLACED and _QUEUES.matches(blocker.type)


def _is_for_host(members: Members) -> bool:
    """Return whether no resource here could be on a GPU: strings, and summary writers."""
    used = [(op, b) for op, b in members if op.explanation.type != "DestroyResourceOp"]
    return bool(used) and all(
        _dtype(blocker) == "string" or "Summary" in cpu_op.explanation.type
        for cpu_op, blocker in used
    )


def _library(members: Members) -> str:
    """Return the library whose scope the resources were created in; "" for the program's own."""
    frames = [blocker.scope_frame if blocker.kind in _PLACED else None for _, blocker in members]
    if any(frame is None or frame.is_user for frame in frames):
        return ""
    return next(library_of(frame) for frame in frames if frame is not None)


def _dtype(blocker: Blocker) -> str:
    dtype = blocker.attributes.get("dtype")
    if isinstance(dtype, str):
        return dtype
    if blocker.kind in _PLACED and blocker.scope is None and blocker.resource is not None:
        return blocker.resource.dtype
    return ""


def _scope_lines(cpu_op: CpuOp, blocker: Blocker) -> list[Frame]:
    """Return the lines of all scopes in which the blocker's resource was created."""
    same = [
        each
        for each in cpu_op.explanation.blockers
        if each.kind in _PLACED and each.resource == blocker.resource
    ]
    return [frame for each in same or [blocker] if (frame := _scope_line(each)) is not None]


def _scope_line(blocker: Blocker) -> Frame | None:
    return None if blocker.scope is None else blocker.scope_frame


def _name(blocker: Blocker) -> str:
    return "" if blocker.resource is None else blocker.resource.name


def _resource_text(blocker: Blocker) -> str:
    if not _name(blocker):
        return "A resource"
    is_variable = blocker.resource is not None and blocker.resource.dtype
    return f"{'Variable' if is_variable else 'Resource'} `{_name(blocker)}`"


def _makes(op_type: str) -> bool:
    return "Handle" in op_type or op_type.startswith(("HashTable", "Anonymous", "Mutable"))


CAUSE = Cause(__name__, "Uses a resource on the CPU", __doc__, match=match, describe=describe)
