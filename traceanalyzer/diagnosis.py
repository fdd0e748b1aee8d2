"""Finds the causes of a run's CPU-placed ops, and counts the ops left unexplained."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from traceanalyzer.attribution import attribute
from traceanalyzer.causes import all_causes
from traceanalyzer.causes.knowledge.after_model import away_from_the_input
from traceanalyzer.causes.no_gpu_visible import hidden_there
from traceanalyzer.costs import Costs
from traceanalyzer.cpu_ops import analyse, analyse_on_a_gpu
from traceanalyzer.format import counted
from traceanalyzer.placement.devices import GPU, parse_device
from traceanalyzer.placement.gpu_differences import differences
from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.timeline.recurring import recurring

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pandas as pd

    from traceanalyzer.causes import Cause
    from traceanalyzer.cpu_ops import CpuOp
    from traceanalyzer.findings import Finding
    from traceanalyzer.model import Certainty, RuleState
    from traceanalyzer.placement.devices import Machine
    from traceanalyzer.placement.explanations import PlacementExplanation
    from traceanalyzer.run import Run

__all__ = ["RAN_ONCE", "CauseOutcome", "Diagnosis", "OnAGpu", "cpu_ops", "diagnose"]

_log = logging.getLogger("traceanalyzer")
RAN_ONCE: Final = "ran_once"  # a modifier of findings
_ORDER: tuple[Certainty, ...] = ("certain", "likely", "possible")


@dataclass(frozen=True, kw_only=True)
class CauseOutcome:
    """Whether a cause was found in a run, and if not, why."""

    cause: str
    status: RuleState
    reason: str | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class OnAGpu:
    """The findings for an assumed machine with GPUs.

    Attributes:
        machine: The machine.
        findings: What would be on the CPU all the same, and why, the most expensive first; and what
            would be on the GPU and computed on the host (`host_memory_kernel`).
        unexplained: Op ids of what would be, without a known cause.
        program_differs: Where the program itself would do something else there.
        subjects: What would be on the CPU, by op id, with what is known of it.
        on_host: What would be on the GPU and computed on the host, the same way.
        replayed: How many ops were replayed.
        not_replayed: Op ids of those that could not be, as nothing was recorded of their nodes.
        hides_gpus: Whether the program itself hides every GPU; what else is found is what holds
            once it does not.
        replaced: What would not be there at all, by op id, with what the program does instead.
        unsure: Ops that are expected on the GPU and may be on the CPU, by id, with the reason.
    """

    machine: Machine
    findings: tuple[Finding, ...]
    unexplained: tuple[str, ...]
    program_differs: tuple[str, ...]
    cpu_ops: dict[str, CpuOp]
    on_host: dict[str, CpuOp]
    replayed: int
    not_replayed: frozenset[str]
    hides_gpus: bool
    replaced: Mapping[str, str]
    unsure: Mapping[str, str]

    @property
    def assumption(self) -> str:
        """The machine in words, and what a capture without one cannot tell of it."""
        gpus = sum(parse_device(device).type == GPU for device in self.machine.devices)
        program = "the same program"
        if self.hides_gpus:
            program += " without what hides the GPU from it"
        return f"{program}, on a machine with {counted(gpus, 'GPU')} whose memory it fits"


@dataclass(frozen=True, eq=False, kw_only=True)
class Diagnosis:
    """The findings of a run.

    Attributes:
        run: The run.
        findings: Those for which devices waited longest first, then those that took the most host
            time.
        outcomes: One for each cause.
        explained: The best certainty with which each op is explained, by op id.
        unexplained: Rows of the op table, placed on the CPU, that no finding names; the most
            expensive first.
        subjects: The ops on the CPU, by op id, with what is known of each; empty where no GPU was
            used.
        on_a_gpu: The findings for a machine with a GPU, if the run's own had none and a capture
            holds enough to predict them; or None.
        costs: What ops cost per step.
    """

    run: Run
    findings: tuple[Finding, ...]
    outcomes: tuple[CauseOutcome, ...]
    explained: dict[str, Certainty]
    unexplained: pd.DataFrame
    cpu_ops: dict[str, CpuOp]
    on_a_gpu: OnAGpu | None
    costs: Costs

    @property
    def explanations(self) -> dict[str, PlacementExplanation]:
        """What is known to keep each op on the CPU, by op id."""
        return {op_id: cpu_op.explanation for op_id, cpu_op in self.cpu_ops.items()}


def cpu_ops(run: Run) -> pd.DataFrame:
    """Return the ops placed on the CPU, input pipeline and runtime overhead not counted."""
    ops = run.ops
    return ops[(ops["placement"] == "cpu") & (ops["role"] == Role.COMPUTE)]


def diagnose(run: Run, causes: Sequence[Cause] | None = None) -> Diagnosis:
    """Explain the CPU-placed ops of a run.

    Args:
        run: The run.
        causes: The causes to look for. Default: all.
    """
    applied = all_causes() if causes is None else causes
    findings: list[Finding] = []
    outcomes: dict[str, CauseOutcome] = {}
    for each in applied:
        found, outcomes[each.id] = _apply(each, run)
        findings += found
    named = {op_id for finding in findings for op_id in finding.op_ids}
    analysis = analyse(run)
    rest = replace(analysis, cpu_ops=tuple(s for s in analysis.cpu_ops if s.op_id not in named))
    attributed, failed = attribute(rest, applied)
    rare = _rare(run)
    attributed = [_without_harm(finding, rare) for finding in attributed]
    findings = [_redirected(finding, run) for finding in (*findings, *attributed)]
    outcomes |= {
        cause: CauseOutcome(cause=cause, status="failed", reason=reason)
        for cause, reason in failed.items()
    }
    named_causes = {c for f in attributed for c in (f.cause, *(b.cause for b in f.blockers))}
    for cause in named_causes:
        if outcomes[cause].status != "failed":
            outcomes[cause] = CauseOutcome(cause=cause, status="fired")
    explained = _explained(findings)
    on_cpu = cpu_ops(run)
    costs = Costs(run)
    left = on_cpu[~on_cpu["op_id"].isin(list(explained))]
    return Diagnosis(
        run=run,
        findings=_most_expensive_first(findings, run, costs),
        outcomes=tuple(outcomes.values()),
        explained=explained,
        unexplained=left.sort_values("host_self_ps", ascending=False, kind="stable"),
        cpu_ops={cpu_op.op_id: cpu_op for cpu_op in analysis.cpu_ops},
        on_a_gpu=_on_a_gpu(run, applied, rare, costs),
        costs=costs,
    )


def _on_a_gpu(
    run: Run, causes: Sequence[Cause], rare: Mapping[str, str], costs: Costs
) -> OnAGpu | None:
    analysis = analyse_on_a_gpu(run)
    if analysis is None or analysis.machine is None:
        return None
    every = (*analysis.cpu_ops, *analysis.on_host)
    findings, _ = attribute(replace(analysis, cpu_ops=every), causes)
    explained = {op_id for finding in findings for op_id in finding.op_ids}
    capture_files = [host.capture_file for host in run.hosts if host.capture_file is not None]
    hidden = hidden_there(tuple(cpu_ops(run)["op_id"]), capture_files)
    found = (_without_harm(_redirected(finding, run), rare) for finding in findings)
    ordered = _most_expensive_first(found, run, costs)
    return OnAGpu(
        machine=analysis.machine,
        findings=_with_hidden(ordered, hidden),
        replayed=analysis.replayed,
        not_replayed=analysis.not_replayed,
        hides_gpus=hidden is not None and hidden.certainty != "possible",
        unexplained=tuple(s.op_id for s in analysis.cpu_ops if s.op_id not in explained),
        program_differs=tuple(
            dict.fromkeys(
                (
                    *(text for capture_file in capture_files for text in differences(capture_file)),
                    *analysis.swapped,
                )
            )
        ),
        cpu_ops={cpu_op.op_id: cpu_op for cpu_op in analysis.cpu_ops},
        on_host={cpu_op.op_id: cpu_op for cpu_op in analysis.on_host},
        replaced=analysis.replaced,
        unsure=analysis.unsure,
    )


def _with_hidden(findings: tuple[Finding, ...], hidden: Finding | None) -> tuple[Finding, ...]:
    """Return findings with that of a hidden GPU: first, or last where it is no more than possible.

    It would make all others void.
    """
    if hidden is None:
        return findings
    return (*findings, hidden) if hidden.certainty == "possible" else (hidden, *findings)


def _redirected(finding: Finding, run: Run) -> Finding:
    """Return a finding whose fixes do not move ops ahead of the model that come after it."""
    fixes = away_from_the_input(finding.fixes, finding.op_ids, run)
    return finding if fixes == finding.fixes else replace(finding, fixes=fixes)


def _rare(run: Run) -> dict[str, str]:
    """Return the ops that are not part of each step, by id, with when they ran."""
    found: dict[str, str] = {}
    for host in run.hosts:
        ops, of = host.tables.ops, recurring(host.tables)
        for at in of.is_rare.nonzero()[0].tolist():
            where = "outside the steps" if of.is_outside[at] else "in one step"
            ran = "ran once," if ops["occurrences"].iloc[at] == 1 else "ran only"
            found[str(ops["op_id"].iloc[at])] = f"{ran} {where}"
    return found


def _without_harm(finding: Finding, rare: Mapping[str, str]) -> Finding:
    """Return a finding as harmless if none of its ops is part of each step."""
    if finding.harm != "harmful" or not rare.keys() >= set(finding.op_ids):
        return finding
    ways = {rare[op_id] for op_id in finding.op_ids}
    ran = ways.pop() if len(ways) == 1 else "not part of each step"
    return replace(
        finding,
        harm="harmless",
        title=f"{finding.title} ({ran})",
        why=f"Regular steps do not do this: it is set-up, a checkpoint or the like. {finding.why}",
        modifiers=(*finding.modifiers, RAN_ONCE),
    )


def _most_expensive_first(
    findings: Iterable[Finding], run: Run, costs: Costs
) -> tuple[Finding, ...]:
    """Sort findings by how long devices waited, then by host time per step, then in all."""
    rows = run.ops.set_index("op_id")
    exposed, took = rows["exposed_ps"].fillna(0), rows["host_self_ps"]
    return tuple(
        sorted(
            findings,
            key=lambda f: (
                -int(exposed.reindex(f.op_ids).sum()),
                -(costs.host_ps(f.op_ids) or 0.0),
                -int(took.reindex(f.op_ids).sum()),
                f.cause,
                f.id,
            ),
        )
    )


def _apply(cause: Cause, run: Run) -> tuple[list[Finding], CauseOutcome]:
    """Look for one cause. An error loses the findings of this cause only."""
    try:
        reason = cause.not_applicable(run)
        if reason is None and not cause.examines_runs and not run.gpu_used:
            reason = "TensorFlow used no GPU: see what would be on the CPU with one"
        if reason is not None:
            return [], CauseOutcome(cause=cause.id, status="not_applicable", reason=reason)
        found = list(cause.check(run))
    except Exception as error:  # noqa: BLE001 - a failing cause must not affect the others
        _log.exception("cause %s failed", cause.id)
        reason = f"{type(error).__name__}: {error}"
        return [], CauseOutcome(cause=cause.id, status="failed", reason=reason)
    return found, CauseOutcome(cause=cause.id, status="fired" if found else "silent")


def _explained(findings: Iterable[Finding]) -> dict[str, Certainty]:
    explained: dict[str, Certainty] = {}
    for finding in sorted(findings, key=lambda f: _ORDER.index(f.certainty)):
        for op_id in finding.op_ids:
            explained.setdefault(op_id, finding.certainty)
    return explained
