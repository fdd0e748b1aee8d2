"""TensorFlow prefers the CPU kernel."""

from traceanalyzer.causes._cause import Blocker, CauseMatch, CpuOp
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
