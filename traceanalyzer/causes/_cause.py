"""The record of a cause, and what its functions take and return."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from traceanalyzer.causes.knowledge.blocked_ops import BlockedOps
    from traceanalyzer.cpu_ops import CpuOp
    from traceanalyzer.findings import Finding
    from traceanalyzer.model import Certainty, Evidence, Fix, Harm
    from traceanalyzer.placement.blocker import Blocker
    from traceanalyzer.run import Run


@dataclass(frozen=True, kw_only=True)
class CauseMatch:
    """A blocker belongs to a cause."""

    #: Ops with equal scopes share a finding. It must be the same when the program is recorded
    #: again, so it holds no line numbers and no counters.
    scope: str
    evidence: tuple[Evidence, ...]
    #: The highest certainty that this cause allows.
    certainty: Certainty = "certain"
    sub_reason: str | None = None
    #: File and line of the cause, if a scope can have several: each has its own finding.
    line: tuple[str, int] | None = None
    #: Whether the finding of its ops names this cause, whatever other blockers some of them have.
    leads: bool = False


@dataclass(frozen=True, kw_only=True)
class FindingText:
    """The text of a finding about ops that share a cause."""

    title: str
    why: str
    harm: Harm
    fixes: tuple[Fix, ...] = ()
    #: Accompanying facts, such as `soft_placement_fallback`.
    modifiers: tuple[str, ...] = ()


def _finds_nothing(_: Run) -> Iterable[Finding]:
    return ()


def _matches_nothing(_: CpuOp, __: Blocker) -> CauseMatch | None:
    return None


@dataclass(frozen=True)
class Cause:
    """A reason why ops run on the CPU.

    A cause examines a whole run (`check`), or the single blockers of ops (`match` and `describe`).
    Each blocker belongs to exactly one cause.
    """

    #: The name of its module, whose last part is the cause's id.
    module: str
    #: The module's docstring: the title, what it detects, why it happens, how to fix it, how sure
    #: it is.
    documentation: str
    _: KW_ONLY
    #: Returns the findings of a run.
    check: Callable[[Run], Iterable[Finding]] = _finds_nothing
    #: Returns how a blocker of an op belongs to this cause, or None.
    match: Callable[[CpuOp, Blocker], CauseMatch | None] = _matches_nothing
    #: Returns the text of the finding about ops whose first blocker belongs to this cause.
    describe: Callable[[BlockedOps], FindingText] | None = None
    #: What a run must have for `check` to find anything: a GPU in use, or a capture file.
    needs: Literal["nothing", "gpu", "capture"] = "nothing"
    #: Returns another reason why the cause cannot apply to a run, or None.
    not_applicable: Callable[[Run], str | None] = lambda _: None

    @property
    def id(self) -> str:
        """The name of the cause in reports."""
        return self.module.rpartition(".")[2]

    @property
    def title(self) -> str:
        """The first line of its documentation, which Python drops with -OO."""
        known = self.documentation or self.id.replace("_", " ")
        return known.strip().partition("\n")[0].rstrip(".")

    def why_not(self, run: Run) -> str | None:
        """Return why the cause cannot apply to a run, or None.

        Single blockers are found in a run only if it used a GPU; otherwise in the prediction.
        """
        needs_gpu = self.needs == "gpu" or self.check is _finds_nothing
        if needs_gpu and not run.gpu_used:
            return "TensorFlow used no GPU: see the prediction for one"
        if self.needs == "capture" and not run.captured:
            return "what it examines is not recorded without a capture"
        return self.not_applicable(run)
