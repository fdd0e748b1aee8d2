"""Ops computed inside a dataset."""

from traceanalyzer.causes._cause import BlockedOps, Blocker, CauseMatch, CpuOp, FindingText
from traceanalyzer.causes.knowledge.advice import switch_of
from traceanalyzer.causes.knowledge.finding_text import observed
from traceanalyzer.placement.blocker import BlockerKind


def match(_: CpuOp, blocker: Blocker) -> CauseMatch | None:
    is_default = blocker.kind is BlockerKind.DEFAULT_DEVICE and blocker.link == "own"
    if not (is_default and blocker.for_step):
        return None
    text = (
        "a dataset created in a function calls this op's function, with the CPU as the default "
        "device, and passes a value of the outer function to it"
    )
    evidence = observed("default_device", text, f"function {blocker.function}")
    return CauseMatch(scope="", evidence=(evidence,), certainty="likely")


def describe(ops: BlockedOps) -> FindingText:
    switch = None if ops.library is None else switch_of(ops.blocker.type, ops.library)
    return ops.described("inside_dataset", None if switch is None else (switch,))
