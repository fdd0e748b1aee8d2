"""Builds the report's table of changes, and a card for each change."""

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

import msgspec
import pandas as pd

from traceanalyzer.causes import cause_title
from traceanalyzer.exclusions import ruled_out
from traceanalyzer.findings import Finding
from traceanalyzer.format import counted
from traceanalyzer.model import blocks as b
from traceanalyzer.model.changes import Change, Saving
from traceanalyzer.report import text as t
from traceanalyzer.report.page_facts import PageFacts
from traceanalyzer.report.records import evidence_shown, place_of, source_lines
from traceanalyzer.units import PS_PER_US

_MOST_CHANGES: Final = 200
_SMALL: Final = 0.01  # of the step: smaller changes are folded
_MOST_OPS: Final = 50  # of a card; the table of ops contains all
_MOST_FINDINGS: Final = 20  # of a card
_MOST_EVIDENCE: Final = 12  # of a finding
_SENTENCE: Final = re.compile(r"[A-Z][^=]* .*[^.]\.")


def changes(facts: PageFacts) -> b.Section | None:
    """Return the table of changes in order of priority, or None if there is nothing to change."""
    found = facts.changes[:_MOST_CHANGES]
    if not found:
        return None
    in_steps = any(_is_per_step(change.saving) for change in found)
    small = {change.id for change in found if _is_small(change.saving)}
    if len(small) == len(found):  # nothing else is left to read
        small = set()
    rows = {change.id: _row(change, in_steps=in_steps) for change in found}
    blocks: list[b.Block] = [b.Changes(rows=tuple(rows[c.id] for c in found if c.id not in small))]
    if small:
        below = (f"{counted(len(small), 'smaller change')}, each below 1 % of the step",)
        folded = b.Changes(rows=tuple(rows[c.id] for c in found if c.id in small))
        blocks.append(b.Fold(summary=below, blocks=(folded,), id="small-changes"))
    return b.Section(id="changes", title="What to change", blocks=tuple(blocks))


def _row(change: Change, *, in_steps: bool) -> b.ChangeRow:
    """Return a change's row. If others save time per step, a total is only on its card."""
    saving = change.saving
    is_mixed = in_steps and saving.high_us is not None and not _is_per_step(saving)
    saves = ("not in every step",) if is_mixed and saving.high_us else saving_text(saving)
    return b.ChangeRow(
        to=f"change-{change.id}",
        detail=t.prose(t.capital(change.detail) or _ops_of(change)),
        saves=saves or ("unknown",),
        share=None if saving.kind == "proxy" or is_mixed else saving.share,
        **_shown(change),
    )


def _is_per_step(saving: Saving) -> bool:
    return saving.per == "step" and saving.high_us is not None


def _is_small(saving: Saving) -> bool:
    return _is_per_step(saving) and saving.share is not None and saving.share < _SMALL


def _shown(change: Change) -> dict[str, Any]:
    """Return the fields that a change's row and card share."""
    # No certainty applies to a change that only finds out more.
    asks = change.kind == "record" or (change.kind == "gpu" and change.candidates)
    return {
        "title": t.prose(change.title),
        "where": (_where(change),),
        "certainty": None if asks else change.certainty,
    }


def _where(change: Change) -> b.Inline:
    if change.place is not None:
        return b.Line(file=change.place[0], line=change.place[1])
    if change.kind in {"gpu", "record"}:
        return "shell"
    if not change.is_by_placement:
        return t.word("where", change.kind)
    return "inside a library" if change.kind == "library" else "not recorded"


def _ops_of(change: Change) -> str:
    """Return how many ops a change moves. All ops move if a GPU becomes visible."""
    return counted(len(change.op_ids), "op") if change.op_ids and change.kind != "gpu" else ""


def saving_text(saving: Saving) -> b.Text:
    """Return a change's saving as text for a cell or a sentence, or () if unknown."""
    if saving.high_us is None or saving.kind == "none":
        return ()
    per = {"step": " per step", "run": " in total", "once": ", once"}[saving.per]
    form = "up to {} of host time{}" if saving.kind == "proxy" else "up to {}{}"
    return t.fill(form, t.time(saving.high_us), per)


# --- cards ---------------------------------------------------------------------------------------


def cards(facts: PageFacts) -> b.Section | None:
    """Return the section with a card for each change, or None if there is nothing to change."""
    number = {change.id: at for at, change in enumerate(facts.changes, 1)}
    made = tuple(_card(facts, change, number) for change in facts.changes[:_MOST_CHANGES])
    return b.Section(id="cards", title="Each change in full", blocks=made) if made else None


def _card(facts: PageFacts, change: Change, number: dict[str, int]) -> b.Card:
    found = [facts.findings[each] for each in change.finding_ids if each in facts.findings]
    ops = facts.run.ops
    ops = ops[ops["op_id"].isin(change.op_ids)]
    whys = [change.why] if change.why else dict.fromkeys(finding.why for finding in found)
    step = facts.devices[0].typical_step() if facts.devices else ""
    # As the table shows it; a filter's text has no quotation marks.
    named = change.title.replace("`", "").partition('"')[0]
    its_ops = f'ops-change:"{named}"'
    links = (("Timeline", step), ("Ops", its_ops)) if change.op_ids else ()
    return b.Card(
        id=f"change-{change.id}",
        facts=_facts(change),
        links=tuple(b.Link(text=text, to=to) for text, to in links if to),
        blocks=(
            *_edits(change),
            *(b.Note(text=t.prose(why)) for why in list(whys)[:3]),
            *_candidates(change),
            *_data_path(facts, ops),
            *_needs(change, found, number),
            *_evidence(facts, found),
            *(_ops(facts, ops) if _ops_of(change) else ()),
            *_ruled_out(facts, change, found),
        ),
        saves=saving_text(change.saving),
        accepts=tuple(finding.id for finding in found),
        is_open=number[change.id] == 1,
        **_shown(change),
    )


def _facts(change: Change) -> b.Text:
    note = f"Saving: {change.saving.note.rstrip('.')}." if change.saving.note else ""
    return t.prose(" ".join(filter(None, (t.sentence(change.detail), note))))


def _edits(change: Change) -> Iterator[b.Block]:
    edited = {(edit.file, edit.line) for edit in change.edits}
    also = [place for place in change.also if tuple(place) not in edited]
    # The replay makes all edits, so it does not verify a diff that lacks one.
    is_verified = change.is_verified and not also
    for e in change.edits:
        yield b.Diff(file=e.file, line=e.line, old=e.old, new=e.new, is_verified=is_verified)
    if not change.edits:
        if change.place and change.line_text:
            at = change.place
            yield b.Source(file=at[0], first_line=at[1], lines=(change.line_text,))
        yield from _instead(change.instead)
    if also:
        places = t.listing(((b.Line(file=file, line=line),) for file, line in also), most=5)
        yield b.Note(text=("Also edit ", *places, "."))
    if change.around:
        yield b.Note(text=t.prose(change.around))
    if change.is_verified and not change.edits:
        yield b.Note(text=("Verified by replaying TensorFlow's placer.",), tone="good")


def _instead(text: str) -> Iterator[b.Block]:
    """Yield a text's sentences as notes, and its other lines as Python or shell code."""
    code = []
    for line in text.strip("\n").split("\n"):
        if "`" in line or _SENTENCE.fullmatch(line):
            yield b.Note(text=t.prose(line))
        elif line:
            code.append(line)
    language: Literal["python", "sh"] = "python"
    try:
        ast.parse("\n".join(code))
    except (SyntaxError, ValueError):
        language = "sh"
    if code:  # Python would accept `nvidia-smi`
        language = "sh" if re.fullmatch(r"[\w-]+", "\n".join(code)) else language
        yield b.Source(file="", first_line=0, lines=tuple(code), language=language)


def _candidates(change: Change) -> Iterator[b.Block]:
    rows: list[dict[str, b.Cell]] = []
    for each in change.candidates:
        if not each.check:  # an alternative
            yield b.Note(text=t.prose(f"Or instead: {t.small(each.title)}"))
            yield from _instead(each.edit)
            continue
        explains = f"{each.explains_directly:,} of {_ops_of(change)}" if _ops_of(change) else None
        if explains and each.explains_following:
            explains += f" directly, {each.explains_following:,} follow"
        check, edit = (b.Code(text=each.check),), t.prose(each.edit)
        rows.append(
            {"cause": t.prose(each.title), "explains": explains, "check": check, "edit": edit}
        )
    if rows:
        yield t.table_of("candidates", rows)


def _needs(change: Change, found: list[Finding], number: dict[str, int]) -> Iterator[b.Block]:
    """Yield the ops' blockers, if there are several, and the other changes that the ops need."""
    items = [
        (
            f"{cause_title(blocker.cause)} ({blocker.certainty})",
            *(t.prose(f": {blocker.evidence[0].text}") if blocker.evidence else ()),
        )
        for finding in found
        for blocker in finding.blockers
    ]
    if len(items) > 1:
        yield b.Note(text=("Fix all of these blockers: removing one is not enough.",))
        yield b.Bullets(items=tuple(dict.fromkeys(items))[:_MOST_EVIDENCE])
    links = [
        (b.Link(text=f"change {number[n]}", to=f"change-{n}"),) for n in change.needs if n in number
    ]
    if links:
        yield b.Note(text=("Some of these ops also need ", *t.listing(links), "."))


def _evidence(facts: PageFacts, found: list[Finding]) -> Iterator[b.Block]:
    count, folds = 0, []
    for finding in found:
        every = [e for blocker in finding.blockers for e in blocker.evidence] + [*finding.evidence]
        places = {shown: place_of(shown) for shown in evidence_shown(every, facts.run)}
        texts = dict.fromkeys(
            (*t.prose(e.text), *([f" [{place}]"] if place else [])) for e, place in places.items()
        )
        count += len(texts)
        items = b.Bullets(items=tuple(texts)[:_MOST_EVIDENCE])
        summary = (*t.prose(finding.title), f" ({finding.certainty})")
        folds.append(b.Fold(summary=summary, blocks=(items,), id=f"finding-{finding.id}"))
    summary = (f"Evidence ({count:,})",)
    if len(folds) == 1:
        yield msgspec.structs.replace(folds[0], summary=summary)
    elif folds:
        yield b.Fold(summary=summary, blocks=tuple(folds[:_MOST_FINDINGS]))


def _ops(facts: PageFacts, ops: pd.DataFrame) -> Iterator[b.Block]:
    if ops.empty:
        return
    shown = ops.sort_values("host_self_ps", ascending=False, kind="stable").head(_MOST_OPS)
    rows: list[dict[str, b.Cell]] = []
    for op, line in zip(shown.to_dict("records"), source_lines(shown, facts.run), strict=True):
        waited = facts.op_waits_us.get(op["op_id"]) if facts.has_gpu_times else None
        row: dict[str, b.Cell] = {"name": str(op["name"]), "type": str(op["type"])}
        row |= {"host_self_us": op["host_self_ps"] / PS_PER_US, "exposed_us": waited}
        rows.append({**row, "source": None if line is None else (line,)})
    ids = [f"op-{op_id}" for op_id in shown["op_id"]]
    table = t.table_of("ops_of_a_change", rows, len(ops), ids=ids)
    yield b.Fold(summary=("Ops",), blocks=(table,))


def _ruled_out(facts: PageFacts, change: Change, found: list[Finding]) -> Iterator[b.Block]:
    excluded = {out.cause: out.because for finding in found for out in finding.ruled_out}
    cpu_op = next((facts.diagnosis.cpu_ops.get(op_id) for op_id in change.op_ids), None)
    if cpu_op is not None:
        causes = {finding.cause for finding in found} | {c.cause for c in change.candidates}
        excluded |= {out.cause: out.because for out in ruled_out(facts.run, cpu_op, causes)}
    if excluded:
        items = tuple((cause_title(c), ": ", *t.prose(because)) for c, because in excluded.items())
        yield b.Fold(summary=(f"Ruled out ({len(items)})",), blocks=(b.Bullets(items=items),))


# --- the data path -------------------------------------------------------------------------------


def _data_path(facts: PageFacts, ops: pd.DataFrame) -> Iterator[b.DataPath]:
    """Yield the path of data from a GPU to CPU ops and back, with mean bytes per execution."""
    transfers = facts.run.transfers
    to_host, to_device = (transfers["direction"] == direction for direction in ("d2h", "h2d"))
    arriving = transfers[to_host & transfers["consumer"].isin(ops["op_id"])]
    leaving = transfers[to_device & transfers["producer"].isin(ops["op_id"])]
    if arriving.empty and leaving.empty:
        return
    runs = max(1, int(ops["occurrences"].median()))
    by_time = ops.sort_values("host_self_ps", ascending=False, kind="stable")
    middle = b.PathStep(
        label=_and_more(str(by_time["type"].iloc[0]), len(ops)),
        device="cpu",
        us=round(int(ops["host_self_ps"].sum()) / PS_PER_US / runs, 3),
        op_id=str(ops["op_id"].iloc[0]),
        bytes_after=_mean_bytes(leaving, runs),
        is_marked=True,
    )
    before = _path_end(arriving, "producer", _mean_bytes(arriving, runs))
    yield b.DataPath(steps=(*before, middle, *_path_end(leaving, "consumer", None)))


def _path_end(copies: pd.DataFrame, end: str, bytes_after: float | None) -> Sequence[b.PathStep]:
    """Return the "producer" or "consumer" (`end`) with the most bytes, as a step of a data path."""
    if copies.empty:
        return ()
    sizes = copies["bytes"].fillna(0).groupby(copies[f"{end}_name"].astype(object)).sum()
    label, ids = "an unknown op", copies[end]
    if len(sizes):
        most = sizes.astype("int64").idxmax()
        ids = ids[copies[f"{end}_name"] == most]
        label = _and_more(str(most).rpartition("/")[2], len(sizes))
    op_id = next(map(str, ids.dropna()), None)
    return (b.PathStep(label=label, device="gpu", op_id=op_id, bytes_after=bytes_after),)


def _and_more(first: str, number: int) -> str:
    return first if number == 1 else f"{first} and {counted(number - 1, 'more')}"


def _mean_bytes(transfers: pd.DataFrame, runs: int) -> float | None:
    known = transfers["bytes"].dropna()
    return None if known.empty else round(int(known.sum()) / runs, 1)
