"""TensorFlow prefers the op's CPU kernel.

## What it detects

Ops that have a kernel for GPUs too, where the one for the CPU is registered with a higher priority:
those of iterators and of optional values (`IteratorGetNext`, `MakeIterator`, `OptionalFromValue`),
and the last stages of datasets (`PrefetchDataset`, `GeneratorDataset`, `OptionsDataset`).

## Why it happens

By design. The input pipeline runs on the host, so the ops at its end are best there; their GPU
kernels are for programs that put the end of a pipeline on a GPU on purpose. Where neither a
request, nor what the op takes, nor the default device of a function decides, the placer takes the
device whose kernel has the highest priority (`SupportedDeviceTypesForNode`, op_kernel.cc).

## How to fix it

Nothing is wrong. To have elements on the GPU before they are asked for, end the pipeline with
`tf.data.experimental.prefetch_to_device`.

## How sure it is

Certain with a capture and a kernel table of TensorFlow's version: a replay of the placement shows
that nothing else keeps the op from a GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.evidence.examples import held, subject
from traceanalyzer.evidence.kernel_types import definition_of
from traceanalyzer.evidence.places import at_lines, made_at
from traceanalyzer.model import Evidence, Fix
from traceanalyzer.placement.blockers import Hold
from traceanalyzer.placement.kernels import CPU, DEFAULT, GPU
from traceanalyzer.placement.registry import load, supported
from traceanalyzer.rules._rule import BlockerExample, Mark, Rule, Words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.evidence.analysis import Subject
    from traceanalyzer.evidence.held import Held


def _recognises(subject: Subject, held: Held) -> Mark | None:
    if held.hold is not Hold.PRIORITY or held.link != "own" or definition_of(held.type) is None:
        return None
    return Mark(
        scope=held.type,
        evidence=(
            Evidence(kind="kernel_registry", text=_priorities(held.type)),
            Evidence(
                kind="placer_replay",
                text="nothing asks for a device, and no default device outranks the kernels",
            ),
            *made_at(subject),
        ),
    )


def _priorities(op: str) -> str:
    """Return the priorities of an op's kernels, in the newest version that has any."""
    for version in reversed(supported()):
        kernels = load(version).kernels(op)
        cpu = [k.priority for k in kernels if k.device_type in {CPU, DEFAULT}]
        gpu = [k.priority for k in kernels if k.device_type in {GPU, DEFAULT}]
        if cpu and gpu and max(cpu) > max(gpu):
            return f"the CPU kernel of {op} has priority {max(cpu)}, the GPU kernel {max(gpu)}"
    return f"the CPU kernel of {op} has a higher priority than its GPU kernel"


def _words(members: Sequence[tuple[Subject, Held]]) -> Words:
    op = members[0][1].type
    return Words(
        title=f"TensorFlow prefers the CPU kernel of {op}{at_lines(s for s, _ in members)}",
        why=(
            f"{op} has kernels for CPU and GPU, and the one for the CPU is registered with the "
            "higher priority: the input pipeline runs on the host, and this op is best beside it. "
            "That is by design."
        ),
        harm="by_design",
        fixes=(
            Fix(
                text=(
                    "Nothing need change. To copy elements to the GPU ahead of time, make this the "
                    "last stage of the dataset; it takes GPU memory for the elements in waiting."
                ),
                code='dataset.apply(tf.data.experimental.prefetch_to_device("/GPU:0"))',
            ),
        ),
    )


RULE = Rule(
    id="kernel_priority",
    title="TensorFlow prefers the CPU kernel",
    documentation=__doc__,
    recognises=_recognises,
    words=_words,
    blocker_examples=(
        BlockerExample(
            title="an optional value, made eagerly",
            subject=subject("OptionalFromValue", function=""),
            held=held("priority", "OptionalFromValue"),
            fires=True,
        ),
        BlockerExample(
            title="an iterator",
            subject=subject("AnonymousIteratorV3"),
            held=held("priority", "AnonymousIteratorV3", name="AnonymousIteratorV3"),
            fires=True,
        ),
        BlockerExample(
            title="an op that uses the iterator",
            subject=subject("MakeIterator"),
            held=held("priority", "IteratorV2", link="resource"),
            fires=False,
        ),
        BlockerExample(
            title="a request",
            subject=subject("OptionalNone"),
            held=held("request", "OptionalNone", asked="/device:CPU:0"),
            fires=False,
        ),
    ),
)
