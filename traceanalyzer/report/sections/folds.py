"""What needs no change, one line each: by design, not the cause, checked, limits of the trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.causes import all_causes
from traceanalyzer.causes.knowledge.candidates import Candidates
from traceanalyzer.diagnosis import RAN_ONCE
from traceanalyzer.format import counted
from traceanalyzer.health import trace_health
from traceanalyzer.model.blocks import Bullets, Column, Fold, Link, Note, Section, Table
from traceanalyzer.report.inline import prose, time
from traceanalyzer.report.myths import myths
from traceanalyzer.report.text import sentence
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traceanalyzer.findings import Finding
    from traceanalyzer.model.blocks import Text
    from traceanalyzer.report.page_facts import PageFacts

_NO_GPU: Final = "no_gpu_visible"
_FEWEST_LIMITS: Final = 3
_CAUSE_COLUMNS: Final = (
    Column(name="cause", title="Cause", term="cause"),
    Column(name="because", title="Result"),
)


def folds(facts: PageFacts) -> Section | None:
    """Return the folded lines; None if there is nothing to say."""
    found = (*_findings(facts), *_myths(facts), *_checked(facts), *_limits(facts))
    return Section(id="folds", title="Nothing to change", blocks=found) if found else None


def health_lines(facts: PageFacts) -> tuple[Text, ...]:
    """Return what limits the trace, the most severe first; a single host is not named."""
    hosts = [host.name for host in facts.run.hosts]
    prefix = f"{hosts[0]}: " if len(hosts) == 1 else ""
    return tuple(
        prose(sentence(entry.message.removeprefix(prefix))) for entry in trace_health(facts.run)
    )


def _limits(facts: PageFacts) -> Iterator[Fold]:
    """Yield the worst of what limits the trace; the section about the trace has everything."""
    entries = trace_health(facts.run)
    if not entries:
        return
    severe = sum(entry.severity != "info" for entry in entries)
    warned = f", {counted(severe, 'warning')}" if severe else ""
    items = health_lines(facts)[: max(severe, _FEWEST_LIMITS)]
    more: tuple[Note, ...] = ()
    if len(items) < len(entries):
        more = (Note(text=(Link(text="About the trace", to="about"), " lists all.")),)
    yield Fold(
        summary=(f"Limits of this trace: {counted(len(entries), 'remark')}{warned}",),
        blocks=(Bullets(items=items), *more),
        id="limits",
        tone="warning" if severe else "plain",
    )


def _findings(facts: PageFacts) -> Iterator[Fold]:
    """Yield the findings that no change is about."""
    in_changes = {each for change in facts.changes for each in change.finding_ids}
    left = [f for f in facts.findings.values() if f.id not in in_changes]
    by_design = [f for f in left if f.harm == "by_design"]
    once = [f for f in left if f.harm != "by_design" and RAN_ONCE in f.modifiers]
    no_gpu = [f for f in left if f.cause == _NO_GPU]
    rest = [f for f in left if f not in (*by_design, *once, *no_gpu)]
    yield from _of_findings(facts, by_design, "by-design", "On the CPU by design")
    yield from _of_findings(facts, once, "once", "On the CPU, but not in each step")
    yield from _of_findings(facts, rest, "other-findings", "Also computed on the host")


def _of_findings(
    facts: PageFacts, found: Sequence[Finding], fold_id: str, title: str
) -> Iterator[Fold]:
    if not found:
        return
    took = facts.run.ops.set_index("op_id")["host_self_ps"]
    ids = {op_id for finding in found for op_id in finding.op_ids}
    blocks = tuple(
        Fold(
            summary=(
                *prose(finding.title),
                f": {counted(len(finding.op_ids), 'op')}, ",
                time(int(took.reindex(finding.op_ids).sum()) / PS_PER_US),
            ),
            blocks=(Note(text=prose(finding.why)),),
            id=f"finding-{finding.id}",
        )
        for finding in found
    )
    total = time(int(took.reindex(sorted(ids)).sum()) / PS_PER_US)
    summary: Text = (f"{title}: {counted(len(ids), 'op')}, ", total)
    yield Fold(summary=summary, blocks=blocks, id=fold_id)


def _myths(facts: PageFacts) -> Iterator[Fold]:
    found = myths(facts.run)
    if found:
        named = ", ".join(dict.fromkeys(_NAMES[each.id] for each in found))
        items = tuple(prose(each.answer) for each in found)
        summary = (f"Not the cause: {named}",)
        yield Fold(summary=summary, blocks=(Bullets(items=items),), id="not-the-cause")


_NAMES: Final = {
    "memory": "GPU memory",
    "other_processes": "other processes",
    "transfer_cost": "transfer cost",
    "float64": "float64",
    "gpu_allocator": "the GPU allocator",
}


def _checked(facts: PageFacts) -> Iterator[Fold]:
    """Yield the causes that were looked for and not found, without those that are possible.

    While ops are unexplained, only what a fact excludes counts: the trace may not show the others.
    """
    open_causes = possible_causes(facts)
    titles = {cause.id: cause.title for cause in all_causes()}
    excluded = {out.cause: out.because for f in facts.findings.values() for out in f.ruled_out}
    not_found = "" if len(facts.diagnosis.unexplained) else "not found in this run"
    rows = []
    for outcome in facts.diagnosis.outcomes:
        because = excluded.get(outcome.cause, not_found)
        if outcome.status == "failed":
            because = f"the check failed: {outcome.reason}; please report this"
        elif outcome.status != "silent" or outcome.cause in open_causes:
            because = ""
        if because:
            title = prose(titles.get(outcome.cause, outcome.cause))
            rows.append((title, prose(sentence(because))))
    if rows:
        table = Table(columns=_CAUSE_COLUMNS, rows=tuple(rows), total_rows=len(rows))
        summary = (f"Checked and not found: {counted(len(rows), 'cause')}",)
        yield Fold(summary=summary, blocks=(table,), id="checked")


def possible_causes(facts: PageFacts) -> set[str]:
    """Return the causes that a finding gives, or that are still possible for an op."""
    found = {finding.cause for finding in facts.findings.values()}
    found |= {blocker.cause for f in facts.findings.values() for blocker in f.blockers}
    found |= {each.cause for change in facts.changes for each in change.candidates}
    candidates = Candidates(facts.run)
    for op_id in facts.diagnosis.unexplained["op_id"]:
        found |= set(candidates.of(facts.diagnosis.cpu_ops.get(op_id)))
    return {cause.partition("/")[0] for cause in found}
