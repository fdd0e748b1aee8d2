"""Ops colocated with an op on the CPU."""

from traceanalyzer.causes._cause import BlockedOps, Blocker, CauseMatch, CpuOp, FindingText
from traceanalyzer.causes.knowledge.finding_text import blocker_text, is_of_strategy, observed
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.devices import device_text


def match(cpu_op: CpuOp, blocker: Blocker) -> CauseMatch | None:
    if _is_copied(blocker):
        device = device_text(blocker.requested_device)
        text = f"it is colocated with {blocker.copied_from} and shares its request for {device}"
        return CauseMatch(
            scope=f"{cpu_op.function} {cpu_op.explanation.type} has the request for {device}",
            evidence=(observed("colocation", text, f"node {blocker.name or cpu_op.name}"),),
            sub_reason="copied_request",
        )
    if blocker.link != "class":
        return None
    if cpu_op.explanation.inferred_from:
        tie = observed("colocation", f"inferred: {cpu_op.explanation.inferred_from}")
        return CauseMatch.by_other(blocker, tie, "")
    text = f"its `_class` attribute colocates it with {blocker.name or blocker.type}"
    tie = observed("colocation", text, f"node {cpu_op.name}")
    return CauseMatch.by_other(blocker, tie, f"node {blocker.name}" if blocker.name else "")


def describe(ops: BlockedOps) -> FindingText:
    blocker = ops.blocker
    if _is_copied(blocker):
        so = f"so they share its request for {device_text(blocker.requested_device)}"
        return ops.described("colocation_group", other=blocker.copied_from, so=so)
    so = f"and {blocker_text(blocker)}, so no op of the group can run on a GPU"
    return ops.described("colocation_group", other=blocker.type, so=so)


def _is_copied(blocker: Blocker) -> bool:
    is_request = blocker.link == "own" and blocker.kind is BlockerKind.REQUEST
    return is_request and bool(blocker.copied_from) and not is_of_strategy(blocker)
