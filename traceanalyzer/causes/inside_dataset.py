"""Ops computed inside a dataset."""

from traceanalyzer.causes._cause import BlockedOps, Blocker, CauseMatch, CpuOp, FindingText
from traceanalyzer.causes.knowledge.advice import switch_of
from traceanalyzer.causes.knowledge.finding_text import observed
from traceanalyzer.placement.blocker import BlockerKind


def match(_: CpuOp, blocker: Blocker) -> CauseMatch | None:
    is_default = blocker.kind is BlockerKind.DEFAULT_DEVICE and blocker.link == "own"
    if not is_default or not (blocker.for_step or blocker.of_model):
        return None
    where = f"function {blocker.function}"
    if blocker.of_model:
        text = (
            "a dataset calls this op's function, with the CPU as the default device; the op "
            "uses the value of a variable"
        )
        evidence = observed("default_device", text, where)
        return CauseMatch(scope="model", evidence=(evidence,), sub_reason="layer_of_a_model")
    text = (
        "a dataset created in a function calls this op's function, with the CPU as the default "
        "device, and passes a value of the outer function to it"
    )
    evidence = observed("default_device", text, where)
    return CauseMatch(scope="", evidence=(evidence,), certainty="likely")


def describe(ops: BlockedOps) -> FindingText:
    if ops.blocker.of_model:
        return ops.described("inside_dataset/model")
    switch = None if ops.library is None else switch_of(ops.blocker.type, ops.library)
    return ops.described("inside_dataset", None if switch is None else (switch,))
