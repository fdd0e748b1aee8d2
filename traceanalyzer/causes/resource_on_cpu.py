"""Ops that use a resource on the CPU."""

from dataclasses import replace
from typing import Final

from traceanalyzer.capture_file.document import Frame, library_of, lines_text
from traceanalyzer.causes._cause import BlockedOps, Blocker, CauseMatch, CpuOp, FindingText, fix
from traceanalyzer.causes.knowledge.advice import HOST_WORK, fixes_of_variables, host_work
from traceanalyzer.causes.knowledge.finding_text import (
    capitalized,
    is_of_strategy,
    observed,
    scope_text,
    types_at,
)
from traceanalyzer.model import Fix
from traceanalyzer.placement.blocker import PLACED
from traceanalyzer.placement.devices import device_text
from traceanalyzer.placement.retyping import XLA_REFUSES

_INT32: Final = "int32"  # `VarHandleOp` has no GPU kernel for it
_NO_INT32: Final = f" TensorFlow has no GPU kernel for int32 variables.{XLA_REFUSES}"
_MAKERS: Final = ("HashTable", "Anonymous", "Mutable")


def match(cpu_op: CpuOp, blocker: Blocker) -> CauseMatch | None:
    is_placed = blocker.kind in PLACED
    if blocker.link != "resource" and not (is_placed and blocker.link == "own"):
        return None
    if is_of_strategy(blocker):
        return None
    if not is_placed:
        where = f"node {blocker.name}" if blocker.name else f"op {blocker.type}"
        tie = observed("shared_resource", f"it shares a resource with {blocker.type}", where)
        is_maker = "Handle" in blocker.type or blocker.type.startswith(_MAKERS)
        user = "its_maker" if is_maker else "another_user"
        return CauseMatch.by_other(blocker, tie, where, f"kept_by_{user}")
    name, device = _name(blocker), device_text(blocker.requested_device) or "the CPU"
    if shown := cpu_op.explanation.inferred_from:
        return CauseMatch(
            scope=f"{name or cpu_op.function} {device}",
            evidence=(observed("resource_device", shown),),
            certainty="likely",
            sub_reason=cpu_op.explanation.habit or "inferred",
        )
    frame = _scope_line(blocker)
    text = f"{name or 'the resource'} is on {device}"
    if frame is not None:
        text += f", because it was created inside {scope_text(blocker)}"
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


def describe(ops: BlockedOps) -> FindingText:
    blocker, name, library = ops.blocker, _name(ops.blocker), _library(ops)
    if ops.ops[0].explanation.inferred_from:
        user = name or ops.ops[0].function
        by = f" of `{user}`" if user else f" used by {types_at(ops.ops)}"
        habits = {cpu_op.explanation.habit for cpu_op in ops.ops}
        case = "embedding" if "embedding" in habits else "inferred"
        return ops.described(f"resource_on_cpu/{case}", by=by)
    is_placed, is_int32 = blocker.kind in PLACED, _dtype(blocker) == _INT32
    is_variable = blocker.resource is not None and blocker.resource.dtype
    kind = "int32 variable" if is_int32 else "variable" if is_variable else "resource"
    made = lines_text(blocker.made_at for blocker in ops.blockers)
    retyped = fixes_of_variables(_INT32, ops.blockers) if is_int32 and not library else None
    text = ops.described(
        "resource_on_cpu" if is_placed else "resource_on_cpu/shared",
        retyped or (_fix(ops, library),),
        Resource=capitalized(f"{kind} `{name}`" if name else "a resource"),
        kind=kind,
        made=f" ({made})" if made else "",
        by=f", where {library} puts it" if library else "",
        int32=_NO_INT32 if is_int32 else "",
    )
    is_by_design = _is_for_host(ops) or library == "TensorFlow" or _is_of_queue(blocker)
    return replace(text, harm="by_design") if is_by_design else text


def _fix(ops: BlockedOps, library: str) -> Fix:
    blocker = ops.blocker
    if all(map(_is_of_queue, ops.blockers)):
        return HOST_WORK["queue"].fix
    if _is_for_host(ops):
        work = host_work(ops.ops[0].explanation.type)
        return fix("resource_on_cpu/use_less") if work is None else work.fix
    if library:
        lines = lines_text(each.scope_frame for each in ops.blockers)
        return fix("resource_on_cpu/library_option", library=library, lines=lines)
    if "Table" in blocker.type:
        return HOST_WORK["hash_table"].fix
    if blocker.kind not in PLACED:
        lines = lines_text(each.frame for each in ops.blockers)
        lines = f" ({lines})" if lines else ""
        return fix("resource_on_cpu/replace", type=blocker.type, lines=lines)
    # All scopes in which the resources of the blockers were created.
    scopes = [
        frame
        for cpu_op, own in ops.members
        for each in (own, *cpu_op.explanation.blockers)
        if each.kind in PLACED and each.resource == own.resource
        if (frame := _scope_line(each)) is not None
    ]
    lines, name = lines_text(scopes), _name(blocker)
    return fix(
        "resource_on_cpu/outside_the_scope",
        checked=bool(lines) and ops.have_no_other_blocker,
        name=f"`{name}`" if name else "the resource",
        several="s" if len(set(scopes)) > 1 else "",
        lines=f" ({lines})" if lines else "",
    )


def _is_of_queue(blocker: Blocker) -> bool:
    """Return whether the resource is on the host because it is a queue or a file reader."""
    return blocker.kind not in PLACED and host_work(blocker.type) is HOST_WORK["queue"]


def _is_for_host(ops: BlockedOps) -> bool:
    """Return whether all resources hold strings or are summary writers, which stay on the host."""
    used = [each for each in ops.members if each[0].explanation.type != "DestroyResourceOp"]
    return bool(used) and all(
        _dtype(blocker) == "string" or "Summary" in cpu_op.explanation.type
        for cpu_op, blocker in used
    )


def _library(ops: BlockedOps) -> str:
    """Return the library that opened all CPU scopes of the resources; "" if no library did."""
    frames = [b.scope_frame if b.kind in PLACED else None for b in ops.blockers]
    known = [library_of(frame) for frame in frames if frame is not None and not frame.is_user]
    return known[0] if len(known) == len(frames) else ""


def _dtype(blocker: Blocker) -> str:
    dtype = blocker.attributes.get("dtype")
    if isinstance(dtype, str):
        return dtype
    if blocker.kind in PLACED and blocker.scope is None and blocker.resource is not None:
        return blocker.resource.dtype
    return ""


def _scope_line(blocker: Blocker) -> Frame | None:
    return None if blocker.scope is None else blocker.scope_frame


def _name(blocker: Blocker) -> str:
    return "" if blocker.resource is None else blocker.resource.name
