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

from traceanalyzer.causes._cause import BlockedOps, Blocker, Cause, CauseMatch, CpuOp, FindingText
from traceanalyzer.causes.knowledge.finding_text import made_at, observed
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.kernel_types import definition_of


def match(cpu_op: CpuOp, blocker: Blocker) -> CauseMatch | None:
    is_own = blocker.kind is BlockerKind.PRIORITY and blocker.link == "own"
    if not is_own or definition_of(blocker.type) is None:
        return None
    priorities = f"the CPU kernel of {blocker.type} has a higher priority than its GPU kernel"
    replay = "no device is requested, and no default device overrides the kernel priorities"
    registry, placer = observed("kernel_registry", priorities), observed("placer_replay", replay)
    return CauseMatch(scope=blocker.type, evidence=(registry, placer, *made_at(cpu_op)))


def describe(ops: BlockedOps) -> FindingText:
    return ops.described("kernel_priority")


CAUSE = Cause(__name__, __doc__, match=match, describe=describe)
