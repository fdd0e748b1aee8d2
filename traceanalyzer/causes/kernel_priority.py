"""TensorFlow prefers the CPU kernel.

## What it detects

Ops whose CPU kernel is registered with a higher priority than their GPU kernel: ops on iterators
and optionals (`IteratorGetNext`, `MakeIterator`, `OptionalFromValue`), and the last stages of
datasets (`PrefetchDataset`, `GeneratorDataset`, `OptionsDataset`).

## Why it happens

By design. The input pipeline runs on the host, so the ops at its end should run there too; their
GPU kernels are for programs that deliberately put the end of a pipeline on a GPU. If neither a
request, nor the op's inputs, nor the function's default device decides, the placer takes the device
whose kernel has the highest priority (`SupportedDeviceTypesForNode`, op_kernel.cc).

## How to fix it

Nothing to change. To have elements on the GPU before they are needed, end the pipeline with
`tf.data.experimental.prefetch_to_device`.

## How sure it is

Certain with a capture and a kernel table of TensorFlow's version: a replay of the placement shows
that nothing else keeps the op off the GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.causes._cause import Cause, CauseMatch, FindingText
from traceanalyzer.causes.knowledge.finding_text import made_at, observed
from traceanalyzer.model import Fix
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.kernel_types import definition_of

if TYPE_CHECKING:
    from traceanalyzer.causes.knowledge.blocked_ops import BlockedOps
    from traceanalyzer.cpu_ops import CpuOp
    from traceanalyzer.placement.blocker import Blocker

_PREFETCH: Final = Fix(
    text=(
        "Nothing needs to change. To copy elements to the GPU ahead of time, make this the last "
        "stage of the dataset. The waiting elements take GPU memory."
    ),
    code='dataset.apply(tf.data.experimental.prefetch_to_device("/GPU:0"))',
)


def match(cpu_op: CpuOp, blocker: Blocker) -> CauseMatch | None:
    if (
        blocker.kind is not BlockerKind.PRIORITY
        or blocker.link != "own"
        or definition_of(blocker.type) is None
    ):
        return None
    priorities = f"the CPU kernel of {blocker.type} has a higher priority than its GPU kernel"
    replay = "no device is requested, and no default device overrides the kernel priorities"
    return CauseMatch(
        scope=blocker.type,
        evidence=(
            observed("kernel_registry", priorities),
            observed("placer_replay", replay),
            *made_at(cpu_op),
        ),
    )


def describe(ops: BlockedOps) -> FindingText:
    op_type = ops.blocker.type
    return FindingText(
        title=f"TensorFlow prefers the CPU kernel of {op_type}{ops.at_lines}",
        why=(
            f"{op_type} has a CPU and a GPU kernel. The CPU kernel has the higher priority, by "
            "design: the input pipeline runs on the host, and this op belongs to it."
        ),
        harm="by_design",
        fixes=(_PREFETCH,),
    )


CAUSE = Cause(__name__, __doc__, match=match, describe=describe)
