"""What to change: the table of changes, and a card for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pandas as pd

from traceanalyzer.format import counted
from traceanalyzer.model.blocks import (
    Bullets,
    Card,
    ChangeRow,
    Changes,
    Code,
    Column,
    Diff,
    Fold,
    Link,
    Note,
    Section,
    Source,
    Table,
)
from traceanalyzer.report.costs import joint_cost
from traceanalyzer.report.inline import line, listing, prose, time
from traceanalyzer.report.ruled_out import ruled_out
from traceanalyzer.report.sections.data_path import data_path
from traceanalyzer.report.sections.step_bar import typical_step
from traceanalyzer.report.sources import evidence_shown, place_of
from traceanalyzer.report.text import cause_title
from traceanalyzer.source_files import shown_files
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.findings import Finding
    from traceanalyzer.model import Evidence
    from traceanalyzer.model.blocks import Block, Cell, Inline, Text
    from traceanalyzer.model.changes import Change, Place, Saving
    from traceanalyzer.report.page_facts import PageFacts

_MOST_CHANGES: Final = 200
_MOST_OPS: Final = 50  # of a card; the table of ops has all
_MOST_FINDINGS: Final = 20  # of a card
_MOST_EVIDENCE: Final = 12  # of a finding
_OP_COLUMNS: Final = (
    Column(name="name", title="Op", kind="code", opens="op"),
    Column(name="type", title="Type", kind="code"),
    Column(name="host_self_us", title="Host time", kind="us", term="host time"),
    Column(name="exposed_us", title="GPU wait per step", kind="us", term="GPU wait"),
    Column(name="source", title="Source", opens="source"),
)
_CANDIDATE_COLUMNS: Final = (
    Column(name="cause", title="Candidate cause", term="cause"),
    Column(name="explains", title="Explains"),
    Column(name="check", title="Check", kind="code"),
    Column(name="edit", title="If so, change"),
)


def changes(facts: PageFacts) -> Section | None:
    """Return the table of changes, most saving first; None if there is nothing to change."""
    if not facts.changes:
        return None
    rows = tuple(_row(change) for change in facts.changes[:_MOST_CHANGES])
    return Section(id="changes", title="What to change", blocks=(Changes(rows=rows),))


def cards(facts: PageFacts) -> Section | None:
    """Return each change in full; the first is open."""
    number = {change.id: at for at, change in enumerate(facts.changes, 1)}
    shown = facts.changes[:_MOST_CHANGES]
    if not shown:
        return None
    made = tuple(_card(facts, change, number, is_open=at == 0) for at, change in enumerate(shown))
    return Section(id="cards", title="Each change in full", blocks=made)


def saving_text(saving: Saving) -> Text:
    """Return what a change saves, for a cell or a sentence; empty if unknown."""
    if saving.high_us is None or saving.kind == "none":
        return ()
    per = {"step": " per step", "run": " in total", "once": ", once"}[saving.per]
    high = time(saving.high_us)
    if saving.kind == "proxy":
        return (high, f" of host time{per}")
    if saving.kind == "upper_bound":
        return ("up to ", high, per)
    estimated = " (estimated)" if saving.kind == "estimated" else ""
    if estimated and not saving.low_us:
        return ("up to ", high, f"{per}{estimated}")
    low = None if not saving.low_us else time(saving.low_us)
    return (high, per) if low in {None, high} else (low, " to ", high, f"{per}{estimated}")


def _row(change: Change) -> ChangeRow:
    return ChangeRow(
        to=f"change-{change.id}",
        title=prose(change.title),
        detail=_detail(change),
        where=_where(change),
        saves=saving_text(change.saving),
        share=None if change.saving.kind == "proxy" else change.saving.share,
        certainty=change.certainty if change.op_ids else None,
        is_by_placement=change.is_by_placement,
    )


def _detail(change: Change) -> Text:
    if change.detail:
        return prose(change.detail)
    ops = counted(len(change.op_ids), "op") if change.op_ids else ""
    return (ops,) if ops else ()


def _where(change: Change) -> Text:
    if change.place is not None:
        return _place(change.place)
    return ("inside a library",) if change.kind == "library" else ()


def _place(place: Place) -> Text:
    return (line(*place),)


# --- cards ---------------------------------------------------------------------------------------


def _card(facts: PageFacts, change: Change, number: dict[str, int], *, is_open: bool) -> Card:
    found = [facts.findings[each] for each in change.finding_ids if each in facts.findings]
    blocks = [
        *_edits(change),
        *_why(change, found),
        *_candidates(change),
        *data_path(facts, change.op_ids),
        *_needs(change, found, number),
        *_evidence(facts, found),
        *_ops(facts, change),
        *_ruled_out(facts, change, found),
    ]
    step = typical_step(facts.devices[0]) if facts.devices else ""
    links = [Link(text="Timeline", to=step)] if step and change.op_ids else []
    links += [Link(text="Ops", to="ops")] if change.op_ids else []
    return Card(
        id=f"change-{change.id}",
        title=prose(change.title),
        where=_where(change),
        saves=saving_text(change.saving),
        certainty=change.certainty if change.op_ids else None,
        facts=_facts(facts, change),
        links=tuple(links),
        blocks=tuple(blocks),
        is_open=is_open,
    )


def _facts(facts: PageFacts, change: Change) -> Text:
    if not change.op_ids:
        return ()
    ops = facts.run.ops
    rows = ops[ops["op_id"].isin(change.op_ids)]
    cost = joint_cost(rows, facts.run.transfers, facts.diagnosis.costs)
    found: list[Inline] = [counted(len(change.op_ids), "op")]
    if cost.exposed_us_per_step is not None:
        found += [", GPU wait ", time(cost.exposed_us_per_step), " per step"]
    if cost.host_us_per_step is not None:
        found += [", host time ", time(cost.host_us_per_step), " per step"]
        if facts.step_us and cost.host_us_per_step > facts.step_us:
            found.append(" (over all threads)")
    elif cost.host_us is not None:
        found += [", host time ", time(cost.host_us), " in total"]
    if change.saving.note:
        found.append(f". Saving: {change.saving.note.rstrip('.')}.")
    return tuple(found)


def _edits(change: Change) -> Iterator[Block]:
    edited = {(edit.file, edit.line) for edit in change.edits}
    also = [place for place in change.also if tuple(place) not in edited]
    for edit in change.edits:
        yield Diff(
            file=edit.file,
            line=edit.line,
            old=edit.old,
            new=edit.new,
            # The replay assumes all edits: those at the other places are not in this diff.
            is_verified=change.is_verified and not also,
        )
    if change.instead and not change.edits:
        code = tuple(change.instead.strip("\n").split("\n"))
        if len(code) == 1 and "`" in code[0]:
            yield Note(text=prose(code[0]))
        else:
            yield Source(file="", first_line=0, lines=code)
    if also:
        places = listing((_place(place) for place in also), most=5)
        yield Note(text=("Also edit ", *places, "."))
    if change.around:
        yield Note(text=prose(change.around))
    if change.is_verified and not change.edits:
        yield Note(text=("Verified by replaying TensorFlow's placer.",), tone="good")


def _why(change: Change, found: list[Finding]) -> Iterator[Block]:
    texts = [change.why] if change.why else dict.fromkeys(finding.why for finding in found)
    for text in list(texts)[:3]:
        yield Note(text=prose(text))


def _candidates(change: Change) -> Iterator[Block]:
    if not change.candidates:
        return
    rows = tuple(
        (
            prose(candidate.title),
            _explains(candidate.explains_directly, candidate.explains_following, change),
            (Code(text=candidate.check),) if candidate.check else None,
            prose(candidate.edit),
        )
        for candidate in change.candidates
    )
    yield Table(columns=_CANDIDATE_COLUMNS, rows=rows, total_rows=len(rows))


def _explains(directly: int, following: int, change: Change) -> str:
    said = f"{directly:,} of {counted(len(change.op_ids), 'op')}"
    return f"{said} directly, {following:,} follow" if following else said


def _needs(change: Change, found: list[Finding], number: dict[str, int]) -> Iterator[Block]:
    """Say what else keeps the ops off the GPU."""
    items = [
        (
            f"{cause_title(blocker.cause)} ({blocker.certainty})",
            *(prose(f": {blocker.evidence[0].text}") if blocker.evidence else ()),
        )
        for finding in found
        for blocker in finding.blockers
    ]
    if len(items) > 1:
        yield Note(text=("Blockers. Fix all of them: removing one is not enough.",))
        yield Bullets(items=tuple(dict.fromkeys(items))[:_MOST_EVIDENCE])
    links = [
        (Link(text=f"change {number[n]}", to=f"change-{n}"),) for n in change.needs if n in number
    ]
    if links:
        yield Note(text=("Some of these ops also need ", *listing(links), "."))


def _evidence(facts: PageFacts, found: list[Finding]) -> Iterator[Block]:
    if not found:
        return
    several = len(found) > 1
    blocks: list[Block] = []
    count = 0
    for finding in found[:_MOST_FINDINGS]:
        every = [e for b in finding.blockers for e in b.evidence] + [*finding.evidence]
        texts = tuple(dict.fromkeys(_fact(facts, e) for e in every))
        count += len(texts)
        bullets = Bullets(items=texts[:_MOST_EVIDENCE])
        summary = (*prose(finding.title), f" ({finding.certainty})")
        inner: tuple[Block, ...] = (bullets,)
        blocks.append(
            Fold(summary=summary, blocks=inner, id=f"finding-{finding.id}") if several else bullets
        )
    left = len(found) - _MOST_FINDINGS
    if left > 0:
        blocks.append(Note(text=(f"{left:,} more findings are in report.json.",)))
    fold_id = "" if several else f"finding-{found[0].id}"
    yield Fold(summary=(f"Evidence ({count:,})",), blocks=tuple(blocks), id=fold_id)


def _fact(facts: PageFacts, evidence: Evidence) -> Text:
    (shown,) = evidence_shown([evidence], facts.run)
    place = place_of(shown)
    return (*prose(shown.text), f" [{place}]") if place else prose(shown.text)


def _ops(facts: PageFacts, change: Change) -> Iterator[Block]:
    ops = facts.run.ops
    rows = ops[ops["op_id"].isin(change.op_ids)]
    if rows.empty:
        return
    rows = rows.sort_values("host_self_ps", ascending=False, kind="stable").head(_MOST_OPS)
    files = shown_files(rows["source_file"], facts.run)
    cells: list[tuple[Cell, ...]] = []
    for row, file in zip(rows.to_dict("records"), files, strict=True):
        number = None if pd.isna(row["source_line"]) else int(row["source_line"])
        waited = facts.op_waits_us.get(row["op_id"]) if facts.has_gpu_times else None
        took = row["host_self_ps"] / PS_PER_US
        source = None if file is None else (line(file, number),)
        cells.append((str(row["name"]), str(row["type"]), took, waited, source))
    keep = [k for k in range(len(_OP_COLUMNS)) if any(cell[k] is not None for cell in cells)]
    table = Table(
        columns=tuple(_OP_COLUMNS[k] for k in keep),
        rows=tuple(tuple(cell[k] for k in keep) for cell in cells),
        total_rows=len(change.op_ids),
        ids=tuple(f"op-{op_id}" for op_id in rows["op_id"]),
    )
    yield Fold(summary=(f"Ops ({len(change.op_ids):,})",), blocks=(table,))


def _ruled_out(facts: PageFacts, change: Change, found: list[Finding]) -> Iterator[Block]:
    """Say which causes are excluded for the ops of a change."""
    excluded = {out.cause: out.because for finding in found for out in finding.ruled_out}
    hosts = {host.name: host for host in facts.run.hosts}
    cpu_op = next((facts.diagnosis.cpu_ops.get(op_id) for op_id in change.op_ids), None)
    if cpu_op is not None:
        causes = {finding.cause for finding in found} | {c.cause for c in change.candidates}
        of_op = ruled_out(facts.run, hosts[cpu_op.host], cpu_op, causes)
        excluded |= {out.cause: out.because for out in of_op}
    if excluded:
        items = tuple(
            (cause_title(cause), ": ", *prose(because)) for cause, because in excluded.items()
        )
        yield Fold(summary=(f"Ruled out ({len(items)})",), blocks=(Bullets(items=items),))
