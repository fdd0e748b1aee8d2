"""Builds the "Nothing to change" section, with one fold for each topic."""

from collections.abc import Iterator, Sequence
from typing import Final

from traceanalyzer.causes import cause_title
from traceanalyzer.causes.knowledge.candidates import Candidates
from traceanalyzer.diagnosis import RAN_ONCE
from traceanalyzer.exclusions import MYTHS, myths
from traceanalyzer.findings import Finding
from traceanalyzer.format import counted
from traceanalyzer.model import blocks as b
from traceanalyzer.report.about import health_lines
from traceanalyzer.report.page_facts import PageFacts
from traceanalyzer.report.text import fill, prose, sentence, table_of, time
from traceanalyzer.units import PS_PER_US

_NO_GPU: Final = "no_gpu_visible"
_BY_DESIGN: Final = ("by-design", "These belong on the CPU")
_INPUT: Final = "The input pipeline, which belongs on the CPU"
_ONCE: Final = ("once", "These run on the CPU, but not in each step")
_OTHERS: Final = ("other-findings", "These run on the CPU, but are not worth a change")


def folds(facts: PageFacts) -> b.Section | None:
    """Return the section "Also checked", or None if it would be empty."""
    found = [*_findings(facts)]
    is_explained = facts.kind != "E"  # otherwise, nothing was looked for
    if is_explained and (answers := myths(facts.run)):
        named = ", ".join(dict.fromkeys(MYTHS[each.id][0] for each in answers))
        bullets = b.Bullets(items=tuple(prose(each.answer) for each in answers))
        found.append(
            _fold("not-the-cause", f"Often suspected, but not the cause: {named}", bullets)
        )
    found += [*(_checked(facts) if is_explained else ()), *_limits(facts)]
    return b.Section(id="folds", title="Also checked", blocks=tuple(found)) if found else None


def _fold(fold_id: str, summary: str, *blocks: b.Block) -> b.Fold:
    return b.Fold(summary=(summary,), blocks=blocks, id=fold_id)


def _findings(facts: PageFacts) -> Iterator[b.Fold]:
    """Yield the findings that no change covers, and whose ops no change moves."""
    in_changes = {each for change in facts.changes for each in change.finding_ids}
    moved = {op_id for c in facts.changes if c.kind != "gpu" for op_id in c.op_ids}

    def summary(title: b.Text, op_ids: Sequence[str]) -> b.Text:
        took, wait_ps = facts.host_time(op_ids), facts.diagnosis.costs.exposed_ps(op_ids)
        if wait_ps is not None:
            took = fill("GPU wait {} per step", time(wait_ps / PS_PER_US))
        return fill("{}: {}, {}", title, counted(len(op_ids), "op"), took)

    by_kind: dict[tuple[str, str], list[Finding]] = {_BY_DESIGN: [], _ONCE: [], _OTHERS: []}
    for f in facts.findings.values():
        is_covered = f.id in in_changes or (f.op_ids and moved.issuperset(f.op_ids))
        if not is_covered and f.cause != _NO_GPU:
            ran_once = _ONCE if RAN_ONCE in f.modifiers else _OTHERS
            by_kind[_BY_DESIGN if f.harm == "by_design" else ran_once].append(f)
    for (fold_id, title), findings in by_kind.items():
        blocks = tuple(
            b.Fold(
                summary=summary(prose(finding.title), finding.op_ids),
                blocks=(b.Note(text=prose(finding.why)),),
                id=f"finding-{finding.id}",
            )
            for finding in findings
        )
        every = sorted({op_id for finding in findings for op_id in finding.op_ids})
        is_input = {finding.cause for finding in findings} == {"host_pipeline"}
        named = summary((_INPUT if is_input else title,), every)
        if blocks:
            yield b.Fold(summary=named, blocks=blocks, id=fold_id)


def _checked(facts: PageFacts) -> Iterator[b.Fold]:
    """Yield a table of the causes that were checked and not found.

    If some ops are unexplained, list only causes that recorded facts exclude.
    """
    possible = _possible_causes(facts)
    excluded = {out.cause: out.because for f in facts.findings.values() for out in f.ruled_out}
    not_found = "" if len(facts.diagnosis.unexplained) else "not found in this run"
    rows: list[dict[str, b.Cell]] = []
    for outcome in facts.diagnosis.outcomes:
        because = ""
        if outcome.status == "silent" and outcome.cause not in possible:
            because = excluded.get(outcome.cause, not_found)
        if because:
            title = prose(cause_title(outcome.cause))
            rows.append({"cause": title, "because": prose(sentence(because))})
    if rows:
        table = table_of("checked", rows)
        yield _fold("checked", f"Causes checked and not found: {len(rows):,}", table)


def _possible_causes(facts: PageFacts) -> set[str]:
    found = {finding.cause for finding in facts.findings.values()}
    found |= {blocker.cause for f in facts.findings.values() for blocker in f.blockers}
    found |= {each.cause for change in facts.changes for each in change.candidates}
    candidates = Candidates(facts.run)
    for op_id in facts.diagnosis.unexplained["op_id"]:
        found |= set(candidates.of(facts.diagnosis.cpu_ops.get(op_id)))
    return {cause.partition("/")[0] for cause in found}


def _limits(facts: PageFacts) -> Iterator[b.Fold]:
    lines = health_lines(facts.run, facts.health)
    if not lines:
        return
    severe = sum(entry.severity != "info" for entry in facts.health)
    warned = f" ({counted(severe, 'warning')})" if severe else ""
    yield b.Fold(
        summary=(f"Limits of this trace: {counted(len(lines), 'remark')}{warned}",),
        blocks=(b.Bullets(items=lines),),
        id="limits",
        tone="warning" if severe else "plain",
    )
