"""A function computes in the functions of a dataset.

## What it detects

Ops that ran on the CPU because a `tf.function` builds a dataset and reduces it, or loops over it,
and gives `map`, `filter` and the like a value of its own: they may compute for the function, but
tf.data runs them. Metrics that search a dataset of candidates do this.

## Why it happens

tf.data places what a dataset calls on the CPU unless it asks for another device
(`CapturedFunction::Instantiate`, captured_function.cc): it expects to prepare input while the GPU
works. If the function needs the results of its own `map` to go on, the GPU waits instead. Variables
on the GPU stay there, so each call copies their values to the CPU. The function given to `reduce`
and the body of `for x in dataset` are not affected: they run on the GPU.

## How to fix it

Move the work out of `map` into the loop over the dataset or into the function given to `reduce`, or
ask for the GPU in the mapped function with `tf.device`. Where all elements fit into one tensor,
compute on that tensor without a dataset.

## How sure it is

Likely: the capture recorded the dataset, the functions it calls, and the values they are given. It
does not tell whether they search for the function or prepare its input. Functions that are given no
value, or whose results are prefetched, count as input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.causes._cause import Cause, CauseMatch, FindingText
from traceanalyzer.causes.knowledge.finding_text import (
    is_only_blocker,
    library_made,
    line_evidence,
    ops_text,
)
from traceanalyzer.causes.knowledge.library_switches import switch_of
from traceanalyzer.model import CaptureFileWhere, Fix
from traceanalyzer.placement.blocker import BlockerKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.evidence.analysis import CpuOp
    from traceanalyzer.placement.blocker import Blocker


def _match(_: CpuOp, blocker: Blocker) -> CauseMatch | None:
    if not (
        blocker.kind is BlockerKind.DEFAULT_DEVICE and blocker.link == "own" and blocker.for_step
    ):
        return None
    where = CaptureFileWhere(sidecar=f"function {blocker.function}")
    text = (
        "a dataset that is reduced within a function calls it with a value of that function, and "
        "its default is the CPU"
    )
    evidence = line_evidence("default_device", text, None, where)
    return CauseMatch(scope="", evidence=(evidence,), certainty="likely")


def _describe(members: Sequence[tuple[CpuOp, Blocker]]) -> FindingText:
    line = library_made(members)
    switch = None if line is None else switch_of(members[0][1].type, line)
    return FindingText(
        title=f"{ops_text(members)} in a dataset that a function reduces, on the CPU",
        why=(
            "A function of the program builds a dataset, gives the functions of `map` and the like "
            "a value of its own, and reduces the dataset or loops over it. tf.data places what "
            "they call on the CPU. If they compute for the function, as in a search, the GPU "
            "waits for them unless the dataset runs ahead, and each call copies the variables it "
            "reads to the CPU. If they prepare its input, that is by design."
        ),
        harm="harmful",
        fixes=_fixes(members) if switch is None else (switch,),
    )


def _fixes(members: Sequence[tuple[CpuOp, Blocker]]) -> tuple[Fix, ...]:
    return (
        Fix(
            text=(
                "Move the work from the mapped function into the loop over the dataset, or "
                "into the function given to `reduce`: these run on the GPU."
            ),
            code="for batch in dataset:  # in the tf.function\n    ...  # what `map` called",
        ),
        Fix(
            text="Or ask for the GPU in the mapped function.",
            code='with tf.device("/GPU:0"):\n    ...',
            checked=is_only_blocker(members),
        ),
        Fix(
            text=(
                "If all elements fit into one tensor, compute on that tensor at once, without "
                "a dataset."
            ),
        ),
    )


CAUSE = Cause(
    id="inside_dataset",
    title="Computed inside a dataset",
    documentation=__doc__,
    match=_match,
    describe=_describe,
)
