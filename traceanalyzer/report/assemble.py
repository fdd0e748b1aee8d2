"""From a diagnosis to the report: all sections, counted and cut to size."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from traceanalyzer.causes import all_causes
from traceanalyzer.causes.knowledge.candidates import SETTLED_BY, Candidates
from traceanalyzer.changes import changes_of
from traceanalyzer.diagnosis import cpu_ops
from traceanalyzer.health import trace_health
from traceanalyzer.model import (
    ExplainedShares,
    Finding,
    OnAGpu,
    OpRef,
    Report,
    RuleStatus,
    StepTime,
    Summary,
    Tables,
    ToolInfo,
    Unexplained,
    UnexplainedOp,
)
from traceanalyzer.report.convert import to_record
from traceanalyzer.report.costs import copies_of_unknown_size, gain, joint_cost, op_cost, path_us
from traceanalyzer.report.inline import plain
from traceanalyzer.report.input_pipeline import input_pipeline
from traceanalyzer.report.memory import memory
from traceanalyzer.report.myths import myths
from traceanalyzer.report.page_of import page_of
from traceanalyzer.report.round_trips import round_trips
from traceanalyzer.report.run_info import devices_of, run_info
from traceanalyzer.report.sources import evidence_shown, line_texts
from traceanalyzer.report.steps import steps_of
from traceanalyzer.report.tables import copy_table, kernel_table, op_table, step_table
from traceanalyzer.report.timeline import critical_paths, idle_share, timeline
from traceanalyzer.report.transfers import transfer_graph
from traceanalyzer.source_files import shown_files
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd

    from traceanalyzer import findings
    from traceanalyzer.costs import Costs
    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.model.times import Steps
    from traceanalyzer.run import Run

_MAX_OPS: Final = 500  # ops of a finding
_HARM_ORDER: Final = ("harmful", "harmless", "by_design")


def assemble(diagnosis: Diagnosis) -> Report:
    """Build the report of a diagnosed run."""
    run = diagnosis.run
    devices = devices_of(run)
    steps = steps_of(run)
    findings = _ranked(_finding(f, run, diagnosis.costs) for f in diagnosis.findings)
    titles = {cause.id: cause.title for cause in all_causes()}
    times = timeline(run)
    report = Report(
        tool=ToolInfo(version=version("traceanalyzer")),
        run=run_info(run, devices, steps),
        health=trace_health(run),
        summary=_summary(diagnosis, idle_share(times, devices), steps),
        findings=findings,
        changes=changes_of(diagnosis),
        unexplained=_unexplained(diagnosis),
        rules=tuple(
            RuleStatus(cause=o.cause, status=o.status, reason=o.reason, title=titles.get(o.cause))
            for o in diagnosis.outcomes
        ),
        on_a_gpu=_on_a_gpu(diagnosis),
        steps=steps,
        timeline=times,
        critical_path=critical_paths(diagnosis.costs),
        transfer_graph=transfer_graph(run),
        round_trips=round_trips(diagnosis, partial(_refs_of, run)),
        round_trips_total=len(run.transfer_costs.round_trips),
        memory=memory(run),
        input_pipeline=input_pipeline(run),
        myths=myths(run),
        tables=Tables(
            ops=op_table(run),
            copies=copy_table(run),
            steps=step_table(run),
            kernels=kernel_table(run.kernels),
        ),
    )

    page = page_of(diagnosis, report.changes, report)
    verdict = " ".join(filter(None, (plain(page.happened), plain(page.next))))
    return replace(report, page=page, summary=replace(report.summary, verdict=verdict))


def _summary(
    diagnosis: Diagnosis,
    gpu_idle_share: float | None,
    steps: Steps,
) -> Summary:
    run = diagnosis.run
    on_cpu = cpu_ops(run)
    total_ps = int(on_cpu["host_self_ps"].sum())
    level = on_cpu["op_id"].map(diagnosis.explained)

    def share(certainty: str) -> float | None:
        part = int(on_cpu.loc[level == certainty, "host_self_ps"].sum())
        return part / total_ps if total_ps else None

    shares = {c: share(c) for c in ("certain", "likely", "possible")}
    known = [shares["certain"], shares["likely"]]
    exposed = diagnosis.costs.exposed_ps(on_cpu["op_id"])
    return Summary(
        verdict="",
        cpu_ops=len(on_cpu),
        cpu_op_us=total_ps / PS_PER_US,
        explained=ExplainedShares(**shares),
        explained_share=sum(s for s in known if s is not None)
        if run.gpu_used and total_ps
        else None,
        gpu_idle_share=gpu_idle_share,
        step_us=None
        if steps.median_us is None
        else StepTime(median=steps.median_us, p95=steps.p95_us),
        exposed_us_per_step=None if exposed is None else exposed / PS_PER_US,
    )


def _finding(
    found: findings.Finding, run: Run, costs: Costs, *, is_measured: bool = True
) -> Finding:
    rows = run.ops[run.ops["op_id"].isin(found.op_ids)]
    rows = rows.sort_values("host_self_ps", ascending=False, kind="stable")
    dragged_along = _most_expensive(found.dragged_along, run)
    return to_record(
        Finding,
        found,
        ops=tuple(OpRef(**ref) for ref in _refs(rows.head(_MAX_OPS), run)),
        ops_total=len(rows),
        dragged_along=tuple(OpRef(**ref) for ref in _refs(dragged_along, run)),
        blockers=tuple(
            replace(b, evidence=evidence_shown(b.evidence, run)) for b in found.blockers
        ),
        evidence=evidence_shown(found.evidence, run),
        cost=joint_cost(rows, run.transfers, costs),
        # The bounds are for moving ops to a device. That fixes neither what is by design nor a slow
        # input pipeline, whose own section says what helps.
        gain_us_per_step=None
        if not is_measured or found.harm == "by_design" or rows["in_input_pipeline"].all()
        else gain(found.op_ids, costs),
        path_us_per_step=path_us(found.op_ids, costs) if is_measured else None,
    )


def _ranked(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings by harm, each by the most a fix could save, and then by host time."""
    return tuple(sorted(findings, key=_rank))


def _rank(finding: Finding) -> tuple[int, float, float]:
    cost = finding.cost
    saved = None if finding.gain_us_per_step is None else finding.gain_us_per_step.high
    saved = cost.exposed_us_per_step if saved is None else saved
    took = cost.host_us if cost.host_us_per_step is None else cost.host_us_per_step
    return _HARM_ORDER.index(finding.harm), -(saved or 0.0), -(took or 0.0)


def _most_expensive(op_ids: Sequence[str], run: Run) -> pd.DataFrame:
    rows = run.ops[run.ops["op_id"].isin(op_ids)]
    return rows.sort_values("host_self_ps", ascending=False, kind="stable").head(_MAX_OPS)


def _on_a_gpu(diagnosis: Diagnosis) -> OnAGpu | None:
    assumed = diagnosis.on_a_gpu
    if assumed is None:
        return None
    run = diagnosis.run
    rows = _most_expensive(assumed.unexplained, run)
    unmeasured = copies_of_unknown_size(run.transfers)
    return OnAGpu(
        assumed=assumed.assumption,
        findings=_ranked(
            _finding(f, run, diagnosis.costs, is_measured=False) for f in assumed.findings
        ),
        unexplained=Unexplained(
            cpu_op_us=int(rows["host_self_ps"].sum()) / PS_PER_US,
            ops=tuple(
                UnexplainedOp(**ref, cost=op_cost(rows.iloc[k : k + 1], unmeasured, None))
                for k, ref in enumerate(_refs(rows, run))
            ),
            ops_total=len(assumed.unexplained),
        ),
        program_differs=assumed.program_differs,
        replayed=assumed.analysis.replayed,
        not_replayed=len(assumed.analysis.not_replayed),
    )


def _refs(rows: pd.DataFrame, run: Run) -> list[dict[str, Any]]:
    columns = ("op_id", "name", "type", "host", "placement")
    return [
        dict(zip(columns, values, strict=True)) | {"file": file, "line": line, "source": source}
        for values, file, line, source in zip(
            rows[list(columns)].itertuples(index=False),
            shown_files(rows["source_file"], run),
            rows["source_line"],
            line_texts(rows, run),
            strict=True,
        )
    ]


def _refs_of(run: Run, op_ids: Sequence[str]) -> tuple[OpRef, ...]:
    """Name ops, in the order of `op_ids`."""
    rows = run.ops[run.ops["op_id"].isin(op_ids)]
    named = {ref["op_id"]: OpRef(**ref) for ref in _refs(rows, run)}
    return tuple(named[op_id] for op_id in op_ids)


def _unexplained(diagnosis: Diagnosis) -> Unexplained:
    left = diagnosis.unexplained
    candidates = Candidates(diagnosis.run)
    shown = left.head(_MAX_OPS)
    unmeasured = copies_of_unknown_size(diagnosis.run.transfers)
    # Another capture would show no more.
    captured = {h.name for h in diagnosis.run.hosts if h.capture_file is not None}
    recorded = [str(host) in captured for host in shown["host"]]
    return Unexplained(
        cpu_op_us=int(left["host_self_ps"].sum()) / PS_PER_US,
        ops=tuple(
            UnexplainedOp(
                **ref,
                occurrences=int(shown["occurrences"].iloc[k]),
                cost=op_cost(shown.iloc[k : k + 1], unmeasured, diagnosis.costs),
                candidates=candidates.of(diagnosis.cpu_ops.get(shown["op_id"].iloc[k])),
                settled_by=None if recorded[k] else SETTLED_BY,
            )
            for k, ref in enumerate(_refs(shown, diagnosis.run))
        ),
        ops_total=len(left),
    )
