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

from traceanalyzer.evidence.examples import held, line, resource, subject
from traceanalyzer.evidence.library_switches import fixes_of_variables
from traceanalyzer.evidence.places import (
    device_text,
    hold_text,
    is_alone,
    is_of_strategy,
    library_of,
    line_evidence,
    lines_text,
    ops_text,
    same_place,
)
from traceanalyzer.evidence.retyping import XLA_REFUSES
from traceanalyzer.evidence.works_on_host import LESS_SUMMARIES, QUEUES
from traceanalyzer.model import Fix, SidecarWhere
from traceanalyzer.placement.blockers import Hold
from traceanalyzer.rules._rule import BlockerExample, Mark, Rule, Words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.evidence.analysis import Subject
    from traceanalyzer.evidence.held import Held
    from traceanalyzer.sidecar.document import Frame

_ELSEWHERE = frozenset({Hold.ASSIGNED, Hold.RESOURCE})
_WITHOUT_KERNEL = "int32"  # `VarHandleOp` has no GPU kernel for it
_TENSORFLOW = "TensorFlow"


def _recognises(subject: Subject, held: Held) -> Mark | None:
    is_elsewhere = held.link == "own" and held.hold in _ELSEWHERE
    if not is_elsewhere and held.link != "resource":
        return None
    if is_of_strategy(held):
        return None
    name = _name(held)
    if held.hold in _ELSEWHERE:
        device = device_text(held.asked) or "the CPU"
        where = SidecarWhere(sidecar=f"resource {name}" if name else "arguments of the function")
        text = f"{name or 'the resource'} is on {device}"
        frame = _line_of_scope(held)
        if frame is not None:
            text += f': made within tf.device("{device_text(held.scope or "")}")'
        evidence = [line_evidence("resource_device", text, frame, where)]
        if held.made_at is not None:
            evidence.append(line_evidence("resource", "the resource is made here", held.made_at))
        return Mark(
            scope=f"{name or subject.function} {device}",
            evidence=tuple(evidence),
            sub_reason="placed_elsewhere",
            line=None if frame is None else (frame.file, frame.line),
        )
    where = SidecarWhere(sidecar=f"node {held.name}" if held.name else f"op {held.type}")
    evidence = [
        line_evidence("shared_resource", f"it shares a resource with {held.type}", None, where),
        line_evidence("blocker", hold_text(held), held.scope_frame or held.frame, where),
    ]
    attributes = " ".join(f"{k}={v}" for k, v in sorted(held.attributes.items()))
    return Mark(
        scope=f"{held.type} {held.hold.value} {attributes} {same_place(held.scope_frame)}",
        evidence=tuple(evidence),
        sub_reason="kept_by_its_maker" if _makes(held.type) else "kept_by_another_user",
    )


def _words(members: Sequence[tuple[Subject, Held]]) -> Words:
    held = members[0][1]
    name = _name(held)
    ops = ops_text(members)
    if held.hold in _ELSEWHERE:
        device = device_text(held.asked) or "the CPU"
        made = lines_text([h.made_at for _, h in members])
        reason = f"{f'the resource {name}' if name else 'a resource'} is on {device}"
        reason += f" (made at {made})" if made else ""
        library = _library(members)
        reason += f", where {library} puts it" if library else ""
        title = f"{reason[:1].upper()}{reason[1:]}, and {ops} with it"
    else:
        reason = f"they share a resource with {held.type}, and {hold_text(held)}"
        title = f"{held.type} keeps a resource on the CPU, and {ops} with it"
    return Words(
        title=title,
        why=(
            "An op runs where the resource is that it uses, whatever it is asked to and whatever "
            f"kernels it has; and {reason}."
            + (XLA_REFUSES if _dtype(held) == _WITHOUT_KERNEL else "")
        ),
        harm=(
            "by_design"
            if _is_for_the_host(members) or _library(members) == _TENSORFLOW or _is_of_a_queue(held)
            else "harmful"
        ),
        fixes=_fixes(members),
    )


def _fixes(members: Sequence[tuple[Subject, Held]]) -> tuple[Fix, ...]:
    held = members[0][1]
    dtype = _dtype(held)
    if (fix := _fix_on_the_host(members)) is not None:
        return (fix,)
    if library := _library(members):
        return (_fix_for_library(members, library),)
    if dtype == _WITHOUT_KERNEL:
        return tuple(fixes_of_variables(dtype, (h for _, h in members)))
    if "Table" in held.type:
        return (
            Fix(
                text="Hash tables have CPU kernels only: look up in the input pipeline.",
                code="dataset = dataset.map(lambda x: table.lookup(x)).prefetch(tf.data.AUTOTUNE)",
            ),
        )
    if held.hold not in _ELSEWHERE:
        lines = lines_text([h.frame for _, h in members])
        at = f" ({lines})" if lines else ""
        return (
            Fix(
                text=(
                    f"Replace {held.type}{at} by an op that has a GPU kernel, or give it its copy "
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
            checked=bool(lines) and is_alone(members),
        ),
    )


def _fix_on_the_host(members: Sequence[tuple[Subject, Held]]) -> Fix | None:
    """Return what to do about resources that belong on the host; None for others."""
    if all(_is_of_a_queue(held) for _, held in members):
        return QUEUES.fix
    if not _is_for_the_host(members):
        return None
    if all("Summary" in subject.case.type for subject, _ in members):
        return LESS_SUMMARIES
    return Fix(text="Nothing about where it is; use it less often if it takes time.")


def _is_of_a_queue(held: Held) -> bool:
    """Return whether an op on a queue, or on a reader of files, keeps it on the host."""
    return held.hold not in _ELSEWHERE and QUEUES.types.fullmatch(held.type) is not None


def _is_for_the_host(members: Sequence[tuple[Subject, Held]]) -> bool:
    """Return whether no resource here could be on a GPU: strings, and what writes files."""
    used = [(s, h) for s, h in members if s.case.type != "DestroyResourceOp"]
    return bool(used) and all(
        _dtype(held) == "string" or "Summary" in subject.case.type for subject, held in used
    )


def _fix_for_library(members: Sequence[tuple[Subject, Held]], library: str) -> Fix:
    if library == _TENSORFLOW:
        return Fix(text=f"The scope is one of {library}'s own; use it less often if it takes time.")
    lines = lines_text([held.scope_frame for _, held in members])
    return Fix(
        text=(
            f"The scope is one of {library}'s own ({lines}): move what it goes by (the variables "
            "of an optimizer are beside those of the model), or see whether the library has an "
            "option for the device."
        ),
    )


def _library(members: Sequence[tuple[Subject, Held]]) -> str:
    """Return whose scope the resources were made in, "" where it is not that of a library."""
    frames = [held.scope_frame if held.hold in _ELSEWHERE else None for _, held in members]
    if any(frame is None or frame.is_user for frame in frames):
        return ""
    return next(library_of(frame) for frame in frames if frame is not None)


def _dtype(held: Held) -> str:
    told = held.attributes.get("dtype")
    if isinstance(told, str):
        return told
    if held.hold in _ELSEWHERE and held.scope is None and held.resource is not None:
        return held.resource.dtype
    return ""


def _lines_of_scopes(subject: Subject, held: Held) -> list[Frame]:
    """Return the lines of the scopes that the resource of what holds an op was made in, each."""
    same = [h for h in subject.case.held if h.hold in _ELSEWHERE and h.resource == held.resource]
    frames = map(_line_of_scope, same or [held])
    return [frame for frame in frames if frame is not None]


def _line_of_scope(held: Held) -> Frame | None:
    return None if held.scope is None else held.scope_frame


def _name(held: Held) -> str:
    return "" if held.resource is None else held.resource.name


def _makes(op_type: str) -> bool:
    return "Handle" in op_type or op_type.startswith(("HashTable", "Anonymous", "Mutable"))


RULE = Rule(
    id="resource_on_cpu",
    title="It uses a resource that is on the CPU",
    documentation=__doc__,
    recognises=_recognises,
    words=_words,
    blocker_examples=(
        BlockerExample(
            title="an argument of the function that lives on the CPU",
            subject=subject("ResourceGather"),
            held=held(
                "assigned",
                "_Arg",
                "resource",
                name="embedding",
                asked="/job:localhost/replica:0/task:0/device:CPU:0",
                resource=resource("embedding/table:0"),
            ),
            fires=True,
        ),
        BlockerExample(
            title="an eager op on a variable of int32",
            subject=subject("AssignAddVariableOp", function=""),
            held=held(
                "resource",
                "AssignAddVariableOp",
                "resource",
                asked="/device:CPU:0",
                resource=resource("step:0", dtype="int32"),
            ),
            fires=True,
        ),
        BlockerExample(
            title="an eager op whose resource was not recorded",
            subject=subject("AssignAddVariableOp", function=""),
            held=held("resource", "AssignAddVariableOp", asked="/device:CPU:0"),
            fires=True,
        ),
        BlockerExample(
            title="a variable of a session, which a line asked to be on the CPU",
            subject=subject("ReadVariableOp"),
            held=held(
                "resource",
                "VarHandleOp",
                "resource",
                name="w",
                asked="/device:CPU:0",
                scope="/CPU:0",
                scope_frame=line(3),
            ),
            fires=True,
        ),
        BlockerExample(
            title="a lookup in a table, which has no GPU kernel",
            subject=subject("LookupTableSizeV2"),
            held=held("no_kernel", "HashTableV2", "resource", name="table"),
            fires=True,
        ),
        BlockerExample(
            title="an op without a GPU kernel of its own",
            subject=subject("LookupTableFindV2"),
            held=held("no_kernel", "LookupTableFindV2"),
            fires=False,
        ),
        BlockerExample(
            title="a member of its group, by `_class`, on an argument",
            subject=subject("MatMul"),
            held=held("assigned", "_Arg", "class", asked="/device:CPU:0"),
            fires=False,
        ),
        BlockerExample(
            title="a request for the op itself",
            subject=subject("MatMul"),
            held=held("request", "MatMul", asked="/device:CPU:0", scope_frame=line(6)),
            fires=False,
        ),
    ),
)
