"""Finds the causes of a run's CPU-placed ops, and counts the ops left unexplained."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal

import pandas as pd

from traceanalyzer.attribution import attribute, contained
from traceanalyzer.causes import Cause, all_causes
from traceanalyzer.causes.host_memory_kernel import copied
from traceanalyzer.causes.no_gpu_visible import hidden_there
from traceanalyzer.costs import Costs
from traceanalyzer.cpu_ops import Analysis, CpuOp, analyse, analyse_on_a_gpu
from traceanalyzer.findings import CERTAINTIES, Finding
from traceanalyzer.format import counted
from traceanalyzer.model import Certainty, RuleState, RuleStatus
from traceanalyzer.placement.devices import GPU, Machine, parse_device
from traceanalyzer.placement.on_a_gpu import differences
from traceanalyzer.run import Run, once_per_run
from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.timeline.recurring import recurring

PREDICTION: Final = "the prediction for a machine with a GPU"
RAN_ONCE: Final = "ran_once"  # a modifier of findings
NOT_RECORDED: Final = "not in the recorded part"
# Settings that only move small ops: harmful only if a device waits for these ops.
_SETTINGS: Final = frozenset({"grappler_pin_to_host", "small_int_pinning"})
EARLIER_VARIABLES: Final = "the code before the capture requests no CPU for its variables"
_NOTICEABLE: Final = 0.02  # of a step


@dataclass(frozen=True, eq=False, kw_only=True)
class Prediction:
    """The findings for an assumed machine with GPUs."""

    machine: Machine
    analysis: Analysis  #: the placement of the run's ops on that machine
    #: About ops that would be on the CPU, or computed there; the most expensive first.
    findings: tuple[Finding, ...]
    unexplained: tuple[str, ...]  #: ids of ops that would be on the CPU without a known cause
    program_differs: tuple[str, ...]  #: sentences on what the program itself would do differently
    #: Whether the program itself hides every GPU. The other findings apply once it no longer does.
    hides_gpus: bool
    #: Whether ops use variables from before the capture, whose requested devices are unknown.
    has_earlier_variables: bool

    @property
    def assumption(self) -> str:
        """The assumed program and machine, as text."""
        gpus = sum(parse_device(device).type == GPU for device in self.machine.devices)
        hidden = " without the code that hides the GPU" if self.hides_gpus else ""
        machine = f"a machine with {counted(gpus, 'GPU')}"
        variables = f"; {EARLIER_VARIABLES}" if self.has_earlier_variables else ""
        return f"the same program{hidden}, on {machine} and enough memory{variables}"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Diagnosis:
    """The findings of a run, and the ops that they leave unexplained."""

    run: Run
    findings: tuple[Finding, ...]  #: sorted by how long devices waited, then by host time
    outcomes: tuple[RuleStatus, ...]  #: one for each cause
    explained: dict[str, Certainty]  #: the best certainty with which each op is explained, by id
    #: Rows of the op table on the CPU that no finding names, the most expensive first.
    unexplained: pd.DataFrame
    cpu_ops: dict[str, CpuOp]  #: the ops on the CPU by id; empty if no GPU was used
    idle: dict[str, CpuOp]  #: those that hand on or describe a value there, without an event
    #: The prediction for a machine with a GPU, if the run had none and a capture allows one.
    on_a_gpu: Prediction | None
    costs: Costs  #: the cost of ops per step
    #: Parts that raised an error, with the error, such as the prediction.
    failed_parts: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def stay_on_cpu(self) -> frozenset[str]:
        """The ids of the ops that are predicted to stay on the CPU of a machine with a GPU."""
        there = self.on_a_gpu
        if there is None:
            return frozenset()
        found = [f for f in (*there.findings, *self.findings) if _is_on_host(f)]
        on_host = {op_id for finding in found for op_id in finding.op_ids}
        on_host &= set(cpu_ops(self.run)["op_id"]) - there.analysis.replaced.keys()
        return frozenset(on_host | there.analysis.cpu_ops.keys())

    def placement_on_a_gpu(self, op_id: str) -> Literal["cpu", "gpu", "unknown"]:
        """Return where an op is predicted to be computed on a machine with a GPU."""
        if op_id in self.stay_on_cpu:
            return "cpu"
        there = self.on_a_gpu
        if there is None:
            return "unknown"
        found = there.analysis
        if op_id in found.idle:
            return "cpu"
        is_open = op_id in found.unsure or op_id in found.not_replayed or op_id in found.replaced
        return "unknown" if is_open else "gpu"

    def __repr__(self) -> str:
        return f"Diagnosis({self.run!r}, {counted(len(self.findings), 'finding')})"


def _is_on_host(finding: Finding) -> bool:
    """Return whether a finding's ops are computed on the host even if placed on a GPU."""
    return finding.cause == "python_callback"


def cpu_ops(run: Run) -> pd.DataFrame:
    """Return the ops placed on the CPU, without the input pipeline and runtime overhead."""
    ops = run.ops
    return ops[(ops["placement"] == "cpu") & (ops["role"] == Role.COMPUTE)]


def diagnose(run: Run, causes: Sequence[Cause] | None = None) -> Diagnosis:
    """Explain the CPU-placed ops of a run, by default with all causes."""
    applied = all_causes() if causes is None else causes
    found: list[Finding] = []
    failed: dict[str, str] = {}
    not_applicable: dict[str, str] = {}
    for cause in applied:
        with contained(cause.id, failed):
            reason = cause.why_not(run)
            if reason is None:
                found += list(cause.check(run))
            else:
                not_applicable[cause.id] = reason
    named = {op_id for finding in found for op_id in finding.op_ids}
    analysis, costs, rare = analyse(run), Costs(run), rare_ops(run)
    rest = [op for op in analysis.cpu_ops.values() if op.op_id not in named]
    attributed = attribute(run, rest, applied, failed, analysis.idle.values())
    findings = [_judged(finding, {}, costs) for finding in found]
    findings += [_judged(finding, rare, costs) for finding in attributed]
    explained: dict[str, Certainty] = {}
    for finding in sorted(findings, key=lambda f: CERTAINTIES.index(f.certainty)):
        for op_id in finding.op_ids:
            explained.setdefault(op_id, finding.certainty)
    there, failed_parts = None, dict[str, str]()
    with contained(PREDICTION, failed_parts):
        there = _on_a_gpu(run, applied, failed, rare, costs)
    on_cpu = cpu_ops(run)
    unexplained = on_cpu[~on_cpu["op_id"].isin(list(explained))]
    return Diagnosis(
        run=run,
        findings=_most_expensive_first(findings, run, costs),
        outcomes=tuple(_outcomes(applied, failed, findings, not_applicable)),
        explained=explained,
        unexplained=unexplained.sort_values("host_self_ps", ascending=False, kind="stable"),
        cpu_ops=analysis.cpu_ops,
        idle=analysis.idle,
        on_a_gpu=there,
        costs=costs,
        failed_parts=failed_parts,
    )


def _outcomes(
    causes: Iterable[Cause],
    failed: Mapping[str, str],
    findings: Iterable[Finding],
    not_applicable: Mapping[str, str],
) -> Iterator[RuleStatus]:
    fired = {each for f in findings for each in (f.cause, *(b.cause for b in f.blockers))}
    for cause in causes:
        status: RuleState = "not_applicable" if cause.id in not_applicable else "silent"
        status = "fired" if cause.id in fired else status
        status = "failed" if cause.id in failed else status
        why = {"failed": failed, "not_applicable": not_applicable}.get(status, {}).get(cause.id)
        yield RuleStatus(cause=cause.id, status=status, reason=why, title=cause.title)


def _on_a_gpu(
    run: Run,
    causes: Sequence[Cause],
    failed: dict[str, str],
    rare: Mapping[str, str],
    costs: Costs,
) -> Prediction | None:
    analysis = analyse_on_a_gpu(run)
    if analysis is None or analysis.machine is None:
        return None
    every = (*analysis.cpu_ops.values(), *analysis.on_host.values())
    found = attribute(run, every, causes, failed, analysis.idle.values())
    findings = [_judged(f, rare, costs) for f in (*found, *copied(analysis.copies))]
    explained = {op_id for finding in findings for op_id in finding.op_ids}
    capture_files = [capture_file for _, capture_file in run.captured]
    hidden = hidden_there(tuple(cpu_ops(run)["op_id"]), capture_files)
    ordered = _most_expensive_first(findings, run, costs)
    hides_gpus = hidden is not None and hidden.certainty != "possible"
    if hidden is not None:  # it would invalidate all others
        ordered = (hidden, *ordered) if hides_gpus else (*ordered, hidden)
    differs = [text for capture_file in capture_files for text in differences(capture_file)]
    return Prediction(
        machine=analysis.machine,
        analysis=analysis,
        findings=ordered,
        hides_gpus=hides_gpus,
        has_earlier_variables=any(each.has_earlier_resources for each in capture_files),
        unexplained=tuple(op_id for op_id in analysis.cpu_ops if op_id not in explained),
        program_differs=tuple(dict.fromkeys(differs)),
    )


@once_per_run
def rare_ops(run: Run) -> dict[str, str]:
    """Return the ids of ops that do not run in every step, each with a text about when it ran."""
    found: dict[str, str] = {}
    for host in run.hosts:
        ops, of = host.tables.ops, recurring(host.tables)
        others = ops["op_id"][ops["no_event"] == "not_recorded"]
        found |= dict.fromkeys(others, NOT_RECORDED)
        for row in of.is_rare.nonzero()[0].tolist():
            where = "outside the steps" if of.is_outside[row] else "in one step"
            ran = "ran once," if ops["occurrences"].iloc[row] == 1 else "ran only"
            found[str(ops["op_id"].iloc[row])] = f"{ran} {where}"
    return found


def _judged(finding: Finding, rare: Mapping[str, str], costs: Costs) -> Finding:
    """Return a finding with its harm adjusted to this run.

    A finding is harmless if its ops do not run in every step. A setting that only moves small ops
    is harmful if devices wait for these ops.
    """
    if finding.harm == "harmful" and finding.op_ids and rare.keys() >= set(finding.op_ids):
        when = {rare[op_id] for op_id in finding.op_ids}
        ran = when.pop() if len(when) == 1 else "not in every step"
        why = "These ops run only during setup, checkpoints, and the like, not in regular steps."
        return replace(
            finding,
            harm="harmless",
            title=f"{finding.title} ({ran})",
            why=f"{why} {finding.why}",
            modifiers=(*finding.modifiers, RAN_ONCE),
        )
    if finding.cause in _SETTINGS:
        waited_ps, step_ps = costs.exposed_ps(finding.op_ids), costs.step_ps()
        if waited_ps and step_ps and waited_ps >= _NOTICEABLE * step_ps:
            return replace(finding, harm="harmful")
    return finding


def _most_expensive_first(
    findings: Iterable[Finding], run: Run, costs: Costs
) -> tuple[Finding, ...]:
    """Sort findings by GPU wait, then host time per step, then total host time, longest first."""
    rows = run.ops.set_index("op_id")
    exposed_ps, host_ps = rows["exposed_ps"].fillna(0), rows["host_self_ps"]
    return tuple(
        sorted(
            findings,
            key=lambda f: (
                -int(exposed_ps.reindex(f.op_ids).sum()),
                -(costs.host_ps(f.op_ids) or 0.0),
                -int(host_ps.reindex(f.op_ids).sum()),
                f.cause,
                f.id,
            ),
        )
    )
