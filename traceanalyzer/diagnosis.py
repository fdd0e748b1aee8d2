"""Runs the rules over a run, and counts what they leave unexplained."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from traceanalyzer.rules import all_rules
from traceanalyzer.tables.vocabulary import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd

    from traceanalyzer.findings import Finding
    from traceanalyzer.model import Certainty, RuleState
    from traceanalyzer.rules import Rule
    from traceanalyzer.run import Run

__all__ = ["Diagnosis", "RuleOutcome", "cpu_ops", "diagnose"]

_log = logging.getLogger("traceanalyzer")
_ORDER: tuple[Certainty, ...] = ("certain", "likely", "possible")


@dataclass(frozen=True, kw_only=True)
class RuleOutcome:
    """What became of one rule: whether it fired, and if not, why not."""

    cause: str
    status: RuleState
    reason: str | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Diagnosis:
    """What the rules found.

    Attributes:
        run: The run.
        findings: Those that cost the most host time first.
        outcomes: One for each rule.
        explained: The best certainty with which each op is explained, by op id.
        unexplained: Rows of the op table, placed on the CPU, that no finding names; the most
            expensive first.
    """

    run: Run
    findings: tuple[Finding, ...]
    outcomes: tuple[RuleOutcome, ...]
    explained: dict[str, Certainty]
    unexplained: pd.DataFrame


def cpu_ops(run: Run) -> pd.DataFrame:
    """Return the ops placed on the CPU, input pipeline and runtime overhead not counted."""
    ops = run.ops
    return ops[(ops["placement"] == "cpu") & (ops["role"] == Role.COMPUTE)]


def diagnose(run: Run, rules: Sequence[Rule] | None = None) -> Diagnosis:
    """Explain the CPU-placed ops of a run.

    Args:
        run: The run.
        rules: The rules to apply; all by default.
    """
    findings: list[Finding] = []
    outcomes = []
    for rule in all_rules() if rules is None else rules:
        found, outcome = _apply(rule, run)
        findings += found
        outcomes.append(outcome)
    explained = _explained(findings)
    on_cpu = cpu_ops(run)
    left = on_cpu[~on_cpu["op_id"].isin(list(explained))]
    cost = run.ops.set_index("op_id")["host_self_ps"]
    findings.sort(key=lambda f: (-int(cost.reindex(f.op_ids).sum()), f.cause, f.id))
    return Diagnosis(
        run=run,
        findings=tuple(findings),
        outcomes=tuple(outcomes),
        explained=explained,
        unexplained=left.sort_values("host_self_ps", ascending=False, kind="stable"),
    )


def _apply(rule: Rule, run: Run) -> tuple[list[Finding], RuleOutcome]:
    """Apply one rule; one that raises costs its own findings, not those of the others."""
    try:
        reason = rule.not_applicable(run)
        if reason is not None:
            return [], RuleOutcome(cause=rule.id, status="not_applicable", reason=reason)
        found = list(rule.check(run))
    except Exception as error:  # noqa: BLE001 - whatever a rule does wrong is reported as its own
        _log.exception("rule %s failed", rule.id)
        reason = f"{type(error).__name__}: {error}"
        return [], RuleOutcome(cause=rule.id, status="failed", reason=reason)
    return found, RuleOutcome(cause=rule.id, status="fired" if found else "silent")


def _explained(findings: Iterable[Finding]) -> dict[str, Certainty]:
    explained: dict[str, Certainty] = {}
    for finding in sorted(findings, key=lambda f: _ORDER.index(f.certainty)):
        for op_id in finding.op_ids:
            explained.setdefault(op_id, finding.certainty)
    return explained
