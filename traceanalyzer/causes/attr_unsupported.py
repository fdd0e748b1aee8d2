"""An attribute, other than a type, that no GPU kernel takes.

## What it detects

Ops that have GPU kernels for their types, but none for another of their attributes: a kernel's
label that is asked for (`_kernel`), or a setting, as `bad_indices_policy="ERROR"` of `GatherNd`.

## Why it happens

Kernels are registered for certain values of attributes, and not only of types: `GatherNd` on a GPU
cannot tell of a bad index, so its GPU kernels do not take the policy that wants an error. A node
whose `_kernel` attribute names a label gets kernels of that label alone, and most labels have
kernels for one type of device (`FindKernelRegistration`, op_kernel.cc). The op is placed on the
CPU, under `tf.device("/GPU:0")` too, without a word.

## How to fix it

Choose a value that has a GPU kernel. Take the label away: `_kernel_label_map` of a graph, in code
for TensorFlow 1, sets it.

## How sure it is

Certain where the op's attributes were captured and TensorFlow's version has a kernel table. Without
a capture nothing tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.causes._cause import Cause, CauseMatch, FindingText
from traceanalyzer.causes.knowledge.finding_text import (
    at_lines,
    checked_if_sufficient,
    library_made,
    made_at,
)
from traceanalyzer.causes.knowledge.library_switches import around
from traceanalyzer.evidence.kernel_types import definition_of, is_type, values_taken
from traceanalyzer.evidence.retyping import works_as
from traceanalyzer.model import CaptureFileWhere, Evidence, Fix
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.tables.vocabulary import PYTHON_CALLBACKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traceanalyzer.capture_file.document import Json
    from traceanalyzer.evidence.analysis import CpuOp
    from traceanalyzer.evidence.recorded_blockers import RecordedBlocker

_LABEL: Final = "_kernel"


def _match(cpu_op: CpuOp, blocker: RecordedBlocker) -> CauseMatch | None:
    if (
        blocker.kind is not BlockerKind.ATTRIBUTES
        or blocker.link != "own"
        or blocker.type in PYTHON_CALLBACKS
        or definition_of(blocker.type) is None
        or all(is_type(blocker.type, name) for name in blocker.attributes)
    ):
        return None
    given = _given(blocker)
    place = (
        f"functions/{blocker.function}/{blocker.name}"
        if blocker.name
        else f"signatures/{blocker.type}"
    )
    return CauseMatch(
        scope=f"{blocker.type}\0{given}",
        sub_reason="kernel_label" if _LABEL in blocker.attributes else None,
        evidence=(
            Evidence(kind="kernel_registry", text=f"no GPU kernel of {blocker.type} takes {given}"),
            Evidence(
                kind="attributes", text=f"recorded: {given}", where=CaptureFileWhere(sidecar=place)
            ),
            *made_at(cpu_op),
        ),
    )


def _describe(members: Sequence[tuple[CpuOp, RecordedBlocker]]) -> FindingText:
    first = members[0][1]
    requested = any("GPU" in (s.requested_device or "").upper() for s, _ in members)
    label = _LABEL in first.attributes
    lines = at_lines(s for s, _ in members)
    return FindingText(
        title=f"{first.type} has no GPU kernel for {_given(first)}{lines}",
        why=(
            f"TensorFlow has GPU kernels for {first.type}, but none for these attributes. "
            + (
                f"`{_LABEL}` asks for kernels of one label alone. "
                if label
                else "They are part of what a kernel is registered for, as types are. "
            )
            + "It runs on the CPU, whatever device is asked for: what it takes from the GPU is "
            "copied to the host, and its result back."
        ),
        harm="harmful",
        fixes=checked_if_sufficient(_fixes(members), members),
        modifiers=("soft_placement_fallback",) if requested else (),
    )


def _fixes(members: Sequence[tuple[CpuOp, RecordedBlocker]]) -> Iterator[Fix]:
    blocker = members[0][1]
    line = library_made(members)
    if line is not None:
        yield around(blocker.type, line)
        return
    if _LABEL in blocker.attributes:
        yield Fix(
            text=(
                "Take the label away, so that the op gets the plain kernel: the program sets it by "
                "`_kernel_label_map`, or it is in the graph that was loaded."
            )
        )
        return
    ((name, value), *more) = blocker.attributes.items()
    text = value.get("s") if isinstance(value, dict) else None
    others = values_taken(blocker.type, name, text) if isinstance(text, str) and not more else ()
    if not others:
        yield Fix(
            text=f"Choose another value for {' and '.join(f'`{n}`' for n in blocker.attributes)}."
        )
        return
    chosen = next((v for v in others if v == "IGNORE"), max(others))
    yield Fix(
        text=(
            f"Choose another value: GPU kernels take {', '.join(map(repr, others))}"
            + (
                ". A bad index then gives zeros rather than an error, so check indices where they "
                "are made."
                if blocker.type == "GatherNd"
                else "."
            )
        ),
        code=f'{name}="{chosen}"',
        checked=all(works_as(h.type, h.given, (name,), {"s": chosen}) for _, h in members),
    )


def _given(blocker: RecordedBlocker) -> str:
    return ", ".join(f"{name}={_shown(value)}" for name, value in blocker.attributes.items())


def _shown(value: Json) -> str:
    if isinstance(value, dict) and isinstance(value.get("s"), str):
        return f'"{value["s"]}"'
    return "a value that was not recorded" if value is None else str(value)


CAUSE = Cause(
    id="attr_unsupported",
    title="No GPU kernel for an attribute",
    documentation=__doc__,
    match=_match,
    describe=_describe,
)
