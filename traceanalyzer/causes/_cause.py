"""The record of a cause, and what its functions return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from traceanalyzer.evidence.analysis import CpuOp
    from traceanalyzer.findings import Finding
    from traceanalyzer.model import Certainty, Evidence, Fix, Harm
    from traceanalyzer.placement.blocker import Blocker
    from traceanalyzer.run import Run

__all__ = ["Cause", "CauseMatch", "FindingText"]


@dataclass(frozen=True, kw_only=True)
class CauseMatch:
    """A blocker belongs to a cause.

    Attributes:
        scope: Ops with equal scopes share a finding. It must be the same when the program is
            recorded again, so it holds no line numbers and no counters.
        line: File and line of the cause, where a scope may have several: each has its own finding,
            numbered in the order of the lines.
        evidence: The observations that show it.
        certainty: The highest certainty that this cause allows.
        sub_reason: A closer name for the cause, or None.
        leads: Whether the finding of its ops names this cause, whatever else keeps some of them.
    """

    scope: str
    evidence: tuple[Evidence, ...]
    certainty: Certainty = "certain"
    sub_reason: str | None = None
    line: tuple[str, int] | None = None
    leads: bool = False


@dataclass(frozen=True, kw_only=True)
class FindingText:
    """The text of a finding about ops that share a cause.

    Attributes:
        title: One line.
        why: Why it happens, in a few sentences.
        harm: Whether it hurts.
        fixes: What to change.
        modifiers: Accompanying facts, such as `soft_placement_fallback`.
    """

    title: str
    why: str
    harm: Harm
    fixes: tuple[Fix, ...] = ()
    modifiers: tuple[str, ...] = ()


def _finds_nothing(_: Run) -> Iterable[Finding]:
    return ()


def _matches_nothing(_: CpuOp, __: Blocker) -> CauseMatch | None:
    return None


@dataclass(frozen=True, kw_only=True)
class Cause:
    """A reason why ops run on the CPU.

    A cause examines a whole run (`check`), or the single blockers of ops (`match` and `describe`).
    Each blocker belongs to exactly one cause.

    Attributes:
        id: The name of its module.
        title: A few words.
        documentation: The module's docstring: what it detects, why it happens, how to fix it, how
            sure it is.
        not_applicable: Returns why the question does not arise for a run, or None.
        check: Returns the findings of a run.
        match: Returns how a blocker of an op belongs to this cause, or None.
        describe: Returns the text of the finding about ops whose first blocker belongs to it.
    """

    id: str
    title: str
    documentation: str
    check: Callable[[Run], Iterable[Finding]] = _finds_nothing
    match: Callable[[CpuOp, Blocker], CauseMatch | None] = _matches_nothing
    describe: Callable[[Sequence[tuple[CpuOp, Blocker]]], FindingText] | None = None
    not_applicable: Callable[[Run], str | None] = lambda _: None

    @property
    def examines_runs(self) -> bool:
        """Whether it examines whole runs, not only single blockers."""
        return self.check is not _finds_nothing
