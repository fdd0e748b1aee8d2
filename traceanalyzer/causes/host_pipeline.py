"""Ops of the input pipeline.

## What it detects

Ops that ran on behalf of tf.data: the stages of datasets, the functions that `map`, `filter` and
the like call, and the ops that hand elements over to the model. With a capture also the ops of such
functions that a trace does not show on threads of tf.data, by the name of their function.

## Why it happens

Dataset ops have CPU kernels only, or, for the few at the end of a pipeline that can be put on a
GPU, one that TensorFlow prefers; the functions that a dataset calls are placed on the CPU whatever
kernels their ops have, unless these ask for another device or use a variable that is on one
(captured_function.cc instantiates them with the CPU as their default). It is the design: the
pipeline prepares the next element while the accelerator works on this one.

## How to fix it

Nothing is wrong with where it runs. A pipeline can be too slow, though: then steps wait for input,
which the trace shows, and the finding names the stage that is slow and what helps: parallel calls,
`prefetch`, `cache`, a vectorised `map`. An op with a GPU kernel runs on the GPU if the function
asks for it with `tf.device`; each element is then copied there and back.

## How sure it is

Certain for what runs within the pipeline: tf.data names its threads, its stages and the calls of
its functions in the trace, and the functions themselves in the graph. Likely for the ops of the
model that take its elements: a program can put an iterator on a GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.causes._cause import Cause, CauseMatch, FindingText
from traceanalyzer.causes.knowledge.finding_text import ops_text, runs_for_dataset
from traceanalyzer.causes.knowledge.pipeline_advice import FASTER
from traceanalyzer.evidence.analysis import analyse_on_a_gpu
from traceanalyzer.findings import Finding
from traceanalyzer.model import CaptureFileWhere, Evidence, Fix
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.tables.vocabulary import PYTHON_CALLBACKS, Role
from traceanalyzer.units import PS_PER_MS
from traceanalyzer.wording import counted, listed, percent_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd

    from traceanalyzer.evidence.analysis import CpuOp
    from traceanalyzer.input_pipeline.records import HostInput, InputUse
    from traceanalyzer.placement.blocker import Blocker
    from traceanalyzer.run import Run


_EPOCHS: Final = 2  # that must be seen before something is called done again
_WORTH: Final = 0.05  # of the steps' time: below this it is not named


def _check(run: Run) -> Iterator[Finding]:
    ops = run.ops
    found = ops[
        (ops["role"] == Role.INPUT_PIPELINE)
        & (ops["placement"] == "cpu")
        & ~ops["type"].isin(PYTHON_CALLBACKS)
    ]
    on_a_gpu = analyse_on_a_gpu(run)
    if on_a_gpu is not None:  # these ask for a GPU, or read a variable that would be on one
        found = found[~found["op_id"].isin(on_a_gpu.off_the_cpu)]
    seen = (found["placement_source"] == "input_pipeline") & (
        found["placement_certainty"] == "certain"
    )
    if seen.any():
        yield _within(found[seen], run.input_pipeline)
    if not seen.all():
        yield _at_its_end(found[~seen])


def _within(found: pd.DataFrame, use: InputUse | None) -> Finding:
    stages = int(found["type"].astype(str).str.startswith("Iterator::").sum())
    is_slow = use is not None and use.worst.verdict == "too_slow"
    return Finding(
        cause=CAUSE.id,
        scope="within",
        certainty="certain",
        harm="harmful" if is_slow else "by_design",
        title=(
            "The input pipeline is too slow on the CPU: steps wait for it"
            if is_slow
            else "The input pipeline runs on the CPU, as tf.data is designed to"
        ),
        why=(
            "These ops are stages of a tf.data pipeline, and of the functions it calls. Datasets "
            "have CPU kernels only, but for a few that a program can put on a GPU, and what a "
            "dataset calls is placed on the CPU, whatever kernels it has, unless it asks for "
            "another device."
        ),
        op_ids=tuple(found["op_id"]),
        evidence=(
            Evidence(
                kind="threads",
                text=(
                    f"{counted(stages, 'stage')} of a dataset, and "
                    f"{counted(len(found) - stages, 'op')} seen on threads of tf.data or within "
                    "its calls"
                ),
            ),
            *_waits(use),
        ),
        fixes=_fixes(use),
    )


def _waits(use: InputUse | None) -> Iterator[Evidence]:
    """Say how long steps wait, and for which stage."""
    waits = None if use is None else use.worst.waits
    if use is None or waits is None or use.worst.verdict == "unknown":
        return
    text = (
        f"steps wait {waits.mean_ps / PS_PER_MS:.2f} ms for input on average, "
        f"{percent_text(waits.share)} of their time"
    )
    slow = use.worst.slow
    if slow is not None:
        text += f"; `{slow.stage}` bounds the rate, with {slow.busy_ps / PS_PER_MS:.2f} ms a step"
    yield Evidence(kind="input_wait", text=text)


def _fixes(use: InputUse | None) -> tuple[Fix, ...]:
    """Return what helps against the stage that is slow; nothing where the pipeline keeps up."""
    if use is None or use.worst.verdict == "unknown":
        return (FASTER,)
    refill = tuple(_refill(use.worst))
    if use.worst.verdict == "keeps_up":
        return refill
    cures = tuple(Fix(text=c.text, code=c.code) for c in use.worst.cures)
    return (*cures, *refill) or (FASTER,)


def _refill(host: HostInput) -> Iterator[Fix]:
    """Say what spares the filling of a shuffle's buffer, where each epoch waits for that."""
    waits = host.waits
    if host.fill_ps is None or host.fills < _EPOCHS or waits is None:
        return
    filling_ps = host.fill_ps * host.fills
    if filling_ps < _WORTH * waits.steps * (waits.mean_ps + waits.other_ps):
        return
    size = "" if host.fill_size is None else f" of {host.fill_size:,} elements"
    yield Fix(
        text=(
            f"A shuffle fills its buffer{size} again for each of {counted(host.fills, 'iterator')} "
            f"({host.fill_ps / PS_PER_MS:,.0f} ms each), mostly at the start of an epoch. Cache "
            "what is ahead of it, take a smaller buffer, or let one iterator go through all epochs."
        ),
        code=(
            "dataset = dataset.cache().shuffle(buffer_size).repeat().batch(batch_size)\n"
            "model.fit(dataset, steps_per_epoch=steps, epochs=epochs)"
        ),
    )


def _at_its_end(found: pd.DataFrame) -> Finding:
    types = listed(sorted(set(found["type"].astype(str))))
    return Finding(
        cause=CAUSE.id,
        sub_reason="hands_over_elements",
        scope="at its end",
        certainty="likely",
        harm="by_design",
        title="The end of the input pipeline ran on the CPU",
        why=(
            "The last stages of a pipeline, and the ops that take its elements, run where the "
            "iterator is: on the CPU, unless the program put it on a GPU."
        ),
        op_ids=tuple(found["op_id"]),
        evidence=(Evidence(kind="op_type", text=f"stages and ops of these types: {types}"),),
    )


def _match(cpu_op: CpuOp, blocker: Blocker) -> CauseMatch | None:
    if blocker.kind is not BlockerKind.DEFAULT_DEVICE or blocker.link != "own":
        return None
    if not runs_for_dataset(cpu_op, blocker):
        return None
    text = "it is in a function that a dataset calls, whose default device is the CPU"
    where = CaptureFileWhere(sidecar=f"function {blocker.function or cpu_op.function}")
    return CauseMatch(
        scope="functions of datasets",
        evidence=(Evidence(kind="default_device", text=text, where=where),),
        sub_reason="function_of_a_dataset",
    )


def _describe(members: Sequence[tuple[CpuOp, Blocker]]) -> FindingText:
    return FindingText(
        title=f"{ops_text(members)} in functions of the input pipeline, which run on the CPU",
        why=(
            "What a dataset calls is placed on the CPU by default, whatever kernels it has. It "
            "prepares the next element while the GPU works on this one, so it does harm only if "
            "the model waits for input."
        ),
        harm="by_design",
        fixes=(FASTER,),
    )


CAUSE = Cause(
    id="host_pipeline",
    title="Part of the input pipeline",
    documentation=__doc__,
    check=_check,
    match=_match,
    describe=_describe,
)
