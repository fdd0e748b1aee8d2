"""Small integer ops kept on the host."""

from typing import Final

from traceanalyzer.causes._cause import Blocker, CauseMatch, CpuOp
from traceanalyzer.causes.knowledge.finding_text import observed
from traceanalyzer.placement.blocker import BlockerKind

_VARIABLE: Final = "TF_EAGER_ENABLE_SMALL_TENSOR_CPU_PINNING"


def match(_: CpuOp, blocker: Blocker) -> CauseMatch | None:
    if blocker.kind is not BlockerKind.SMALL_INPUTS or blocker.link != "own":
        return None
    text = f"{_VARIABLE} is set in the program's environment"
    evidence = observed("environment", text, f"environment: {_VARIABLE}")
    return CauseMatch(scope="", evidence=(evidence,))
