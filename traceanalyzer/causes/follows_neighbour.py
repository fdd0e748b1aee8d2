"""Ops placed on the CPU because of their inputs or consumers."""

from traceanalyzer.causes._cause import Blocker, CauseMatch, CpuOp
from traceanalyzer.causes.knowledge.finding_text import observed


def match(cpu_op: CpuOp, blocker: Blocker) -> CauseMatch | None:
    if blocker.link != "follows":
        return None
    followed = cpu_op.explanation.follows or (blocker.name or blocker.type,)
    where = f"node {cpu_op.name}"
    tie = observed("placement_rule", f"it follows {', '.join(followed[:3])}", where)
    return CauseMatch.by_other(blocker, tie, where)
