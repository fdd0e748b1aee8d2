"""Builds the report from a diagnosis: its data, limited in size, and its page."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Any, Final, TypeVar

import pandas as pd

from traceanalyzer import model as m
from traceanalyzer.attribution import contained
from traceanalyzer.causes.knowledge.candidates import Candidates
from traceanalyzer.changes import changes_of
from traceanalyzer.costs import joint_cost, op_costs
from traceanalyzer.diagnosis import Diagnosis, cpu_ops
from traceanalyzer.exclusions import myths
from traceanalyzer.findings import Finding
from traceanalyzer.health import trace_health
from traceanalyzer.model.figures import Steps
from traceanalyzer.report.about import run_info
from traceanalyzer.report.input_pipeline import input_pipeline
from traceanalyzer.report.memory import memory
from traceanalyzer.report.page import page_of
from traceanalyzer.report.records import evidence_shown, line_texts, source_lines, tables, to_record
from traceanalyzer.report.steps import steps_of, timeline
from traceanalyzer.report.text import plain
from traceanalyzer.report.transfers import round_trips, transfer_graph
from traceanalyzer.run import Run
from traceanalyzer.units import PS_PER_US, us
from traceanalyzer.version import VERSION

_T = TypeVar("_T")
_MAX_OPS: Final = 500  # ops of a finding
_HARM_ORDER: Final = ("harmful", "harmless", "by_design")


def assemble(diagnosis: Diagnosis, *, is_whole: bool = False) -> m.Report:
    """Build the report of a diagnosed run. With `is_whole`, its lists of ops are not cut."""
    run, most = diagnosis.run, None if is_whole else _MAX_OPS
    steps = steps_of(run)
    by_id = run.ops.set_index("op_id", drop=False)
    failed: dict[str, str] = {}

    def made(name: str, make: Callable[[], _T], otherwise: _T) -> _T:
        with contained(name, failed):
            return make()
        return otherwise

    report = m.Report(
        tool=m.ToolInfo(version=VERSION),
        run=run_info(run),
        health=(),  # known in the end
        summary=_summary(diagnosis, steps),
        findings=_ranked(_finding(f, diagnosis, most) for f in diagnosis.findings),
        changes=made("the search for changes", lambda: changes_of(diagnosis), ()),
        unexplained=_unexplained(diagnosis.unexplained, diagnosis, most, is_measured=True),
        rules=diagnosis.outcomes,
        on_a_gpu=_on_a_gpu(diagnosis, most),
        steps=steps,
        timeline=made("the time of each device", lambda: timeline(run), None),
        transfer_graph=made("the graph of transfers", lambda: transfer_graph(run), None),
        round_trips=made(
            "the search for round trips",
            lambda: round_trips(diagnosis, lambda ids: _ops(by_id.loc[list(ids)], run)),
            (),
        ),
        round_trips_total=len(run.transfer_costs.round_trips),
        memory=made("the use of memory", lambda: memory(run), None),
        input_pipeline=made("the input pipeline", lambda: input_pipeline(run), None),
        myths=made("the list of common claims", lambda: myths(run), ()),
        tables=tables(diagnosis, most),
    )
    page = page_of(diagnosis, report.changes, report, failed)
    verdict = " ".join(filter(None, (plain(page.happened), plain(page.next))))
    health = trace_health(run, diagnosis.outcomes, {**diagnosis.failed_parts, **failed})
    return replace(
        report, health=health, page=page, summary=replace(report.summary, verdict=verdict)
    )


def _summary(diagnosis: Diagnosis, steps: Steps) -> m.Summary:
    on_cpu, median_us = cpu_ops(diagnosis.run), steps.median_us
    total_ps = int(on_cpu["host_self_ps"].sum())
    levels = on_cpu["op_id"].map(diagnosis.explained)
    of_level = on_cpu["host_self_ps"].groupby(levels).sum() / (total_ps or 1)
    shares = {k: float(of_level.get(k, 0.0)) for k in ("certain", "likely", "possible")}
    is_known = diagnosis.run.gpu_used and total_ps > 0
    return m.Summary(
        verdict="",
        cpu_ops=len(on_cpu),
        cpu_op_us=total_ps / PS_PER_US,
        explained=m.ExplainedShares(**(shares if total_ps else dict.fromkeys(shares))),
        explained_share=shares["certain"] + shares["likely"] if is_known else None,
        step_us=None if median_us is None else m.StepTime(median=median_us, p95=steps.p95_us),
        exposed_us_per_step=us(diagnosis.costs.exposed_ps(on_cpu["op_id"])),
    )


# --- findings --------------------------------------------------------------------------------


def _finding(
    found: Finding, diagnosis: Diagnosis, most: int | None, *, is_measured: bool = True
) -> m.FindingRecord:
    run, costs = diagnosis.run, diagnosis.costs
    rows = _most_expensive(found.op_ids, run)
    # Neither by-design ops nor those of the input pipeline are to move to a device.
    can_gain = is_measured and found.harm != "by_design" and not rows["in_input_pipeline"].all()
    gain_ps = costs.gain_ps(found.op_ids) if can_gain else None
    return to_record(
        m.FindingRecord,
        found,
        ops=_ops(rows.iloc[:most], run),
        ops_total=len(rows),
        dragged_along=_ops(_most_expensive(found.dragged_along, run).iloc[:most], run),
        blockers=tuple(
            replace(b, evidence=evidence_shown(b.evidence, run)) for b in found.blockers
        ),
        evidence=evidence_shown(found.evidence, run),
        cost=joint_cost(rows, run.transfers, costs),
        gain_us_per_step=None if gain_ps is None else m.Gain(high=us(gain_ps), basis="exposed"),
    )


def _ranked(findings: Iterable[m.FindingRecord]) -> tuple[m.FindingRecord, ...]:
    """Sort findings by harm, then by the most time that a fix could save, then by host time."""

    def rank(finding: m.FindingRecord) -> tuple[int, float, float]:
        cost, bounds = finding.cost, finding.gain_us_per_step
        high = None if bounds is None else bounds.high
        saved = cost.exposed_us_per_step if high is None else high
        took = cost.host_us if cost.host_us_per_step is None else cost.host_us_per_step
        return _HARM_ORDER.index(finding.harm), -(saved or 0.0), -(took or 0.0)

    return tuple(sorted(findings, key=rank))


def _on_a_gpu(diagnosis: Diagnosis, most: int | None) -> m.PredictionRecord | None:
    there = diagnosis.on_a_gpu
    if there is None:
        return None
    left = _most_expensive(there.unexplained, diagnosis.run)
    return m.PredictionRecord(
        assumed=there.assumption,
        findings=_ranked(_finding(f, diagnosis, most, is_measured=False) for f in there.findings),
        unexplained=_unexplained(left, diagnosis, most, is_measured=False),
        program_differs=there.program_differs,
        replayed=there.analysis.replayed,
        not_replayed=len(there.analysis.not_replayed),
    )


def _unexplained(
    left: pd.DataFrame, diagnosis: Diagnosis, most: int | None, *, is_measured: bool
) -> m.Unexplained:
    run, shown, candidates = diagnosis.run, left.iloc[:most], Candidates(diagnosis.run)
    costs = op_costs(shown, run.transfers, diagnosis.costs if is_measured else None)
    ops = []
    for ref, occurrences, cost in zip(_refs(shown, run), shown["occurrences"], costs, strict=True):
        more: dict[str, Any] = {}
        if is_measured:
            more["occurrences"] = int(occurrences) or None
            more["candidates"] = candidates.of(diagnosis.cpu_ops.get(ref["op_id"]))
        ops.append(m.UnexplainedOp(**ref, cost=cost, **more))
    took_us = int(left["host_self_ps"].sum()) / PS_PER_US
    return m.Unexplained(cpu_op_us=took_us, ops=tuple(ops), ops_total=len(left))


# --- ops -------------------------------------------------------------------------------------


def _most_expensive(op_ids: Collection[str], run: Run) -> pd.DataFrame:
    rows = run.ops[run.ops["op_id"].isin(op_ids)]
    return rows.sort_values("host_self_ps", ascending=False, kind="stable")


def _refs(rows: pd.DataFrame, run: Run) -> list[dict[str, Any]]:
    """Return the fields of an `OpRef` for each op."""
    columns = ["op_id", "name", "type", "host", "placement"]
    named: list[dict[str, Any]] = rows[columns].to_dict("records")  # type: ignore[assignment]
    lines = zip(named, source_lines(rows, run), line_texts(rows, run), strict=True)
    return [
        {**ref, "file": at and at.file, "line": at and at.line, "source": source}
        for ref, at, source in lines
    ]


def _ops(rows: pd.DataFrame, run: Run) -> tuple[m.OpRef, ...]:
    return tuple(m.OpRef(**ref) for ref in _refs(rows, run))
