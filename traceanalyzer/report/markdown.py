"""Renders the page as Markdown for issues and reviews: one change, or a summary of the page."""

import re
from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from traceanalyzer.format import counted
from traceanalyzer.model import blocks as b
from traceanalyzer.report.text import plain, visible
from traceanalyzer.report.text_output import (
    CodeLines,
    Form,
    Quiet,
    Simple,
    Titled,
    cell_text,
    is_figure,
)

_FORM: Final = Form(rows=50, columns=50, draws_bars=False)
_REASON: Final = "accepted in a review"
_EXPIRES: Final = "2099-12-31"
_MOST_LINES: Final = 40  # of a review
_MOST_CHANGES: Final = 10
_MOST_DEVICES: Final = 2
_ACTIVE: Final = re.compile(r"([\\*_{}\[\]<>#|~])")  # characters with a meaning in Markdown or HTML


def page_markdown(page: b.Page) -> str:
    """Return the page as a review: the answer, the bars, the changes, and the first diffs."""
    blocks = [block for section in page.sections for block in section.blocks]
    lines = [f"# {_name(page.title)}", "", _text((" · ".join(page.facts),)), ""]
    lines += [f"**{_text(page.happened)}**", "", _text(page.next), ""]
    for section in page.sections:
        bars = [block for block in section.blocks if isinstance(block, b.StepBar)]
        lines += [f"- {_name(section.title)}: {_parts(bar)}" for bar in bars if bar.bars]
    for section in page.sections:
        for table in (block for block in section.blocks if isinstance(block, b.Changes)):
            first = replace(table, rows=table.rows[:_MOST_CHANGES])
            lines += ["", f"## {_name(section.title)}", "", *_of(first)]
    diffs = [found for card in blocks if isinstance(card, b.Card) if (found := _diff(card))]
    for place, diff in enumerate(diffs):
        if _joined([*lines, *diff, ""]).count("\n") >= _MOST_LINES:
            lines.append(f"{counted(len(diffs) - place, 'more diff')} on the page.")
            break
        lines += diff
    return _joined(lines)


def _parts(bar: b.StepBar) -> str:
    """Return the parts of a bar's devices, each with its value and share, in one line."""
    devices = []
    for table in (simple for simple in _FORM.simple(bar) if isinstance(simple, b.Table)):
        rows = ([*map(_text, map(cell_text, table.columns, row))] for row in table.rows)
        devices.append(", ".join(f"{' '.join(known)} ({share})" for *known, share in rows))
    return "; ".join(devices[:_MOST_DEVICES])


def _diff(card: b.Card) -> list[str]:
    """Return the title of a change and its diffs; [] if it has none."""
    diffs = [block for block in card.blocks if isinstance(block, b.Diff)]
    return [f"**{_text(card.title)}**", "", *_of(*diffs)] if diffs else []


def markdown_of(page: b.Page) -> dict[str, str]:
    """Return the text that each of the page's buttons copies.

    The keys are card ids, `accept-<id>` for a card's budget entries, and "" for the whole page.
    """
    cards = [block for s in page.sections for block in s.blocks if isinstance(block, b.Card)]
    accepted = {f"accept-{c.id}": "\n".join(map(_accepted, c.accepts)) for c in cards if c.accepts}
    return {"": page_markdown(page)} | {c.id: _joined(_of(c)) for c in cards} | accepted


def _accepted(finding_id: str) -> str:
    """Return a budget entry that accepts a finding; the page replaces the date by one soon."""
    return f'[[accepted]]\nid = "{finding_id}"\nreason = "{_REASON}"\nexpires = {_EXPIRES}\n'


def _joined(lines: Iterable[str]) -> str:
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines))
    return f"{text.strip()}\n"


# --- text ------------------------------------------------------------------------------------


def _text(text: b.Text) -> str:
    """Return inline text as Markdown, with special characters escaped outside of code."""
    return "".join(map(_inline, text))


def _inline(inline: b.Inline) -> str:
    if isinstance(inline, b.Code | b.Line) or (isinstance(inline, b.Link) and inline.is_code):
        text = visible(plain((inline,), code=""))
        marks = "`" * (1 + _longest_run([text]))
        space = " " if text.startswith("`") or text.endswith("`") else ""
        return f"{marks}{space}{text}{space}{marks}" if text else ""
    name = _name(plain((inline,)))
    return f"**{name}**" if isinstance(inline, b.Strong) else name


def _name(text: str) -> str:
    return _ACTIVE.sub(r"\\\1", visible(text))


def _longest_run(lines: Iterable[str]) -> int:
    return max((len(run) for line in lines for run in re.findall("`+", line)), default=0)


# --- blocks: the lines of each, an empty one at the end ------------------------------------------


def _of(*blocks: b.Block) -> list[str]:
    simple = (simple for block in blocks for simple in _FORM.simple(block))
    return [line for each in simple for line in (*_lines(each), "")]


def _lines(simple: Simple) -> list[str]:
    lines: list[str] = []
    match simple:
        case b.Note() | Quiet():
            lines = [_text(simple.text)]
        case b.KeyValues():
            lines = [f"- {_name(name)}: {_text(text)}" for name, text in simple.rows]
        case b.Bullets():
            lines = [f"- {_text(item)}" for item in simple.items]
        case CodeLines():
            fence = "`" * max(3, 1 + _longest_run(simple.lines))
            code = (visible(line.expandtabs(4)) for line in simple.lines)
            lines = [f"{fence}{simple.language}", *code, fence]
        case b.Table(columns=columns):
            titles = [_name(column.title) for column in columns]
            under = ["--:" if is_figure(column) else "---" for column in columns]
            rows = ([*map(_text, map(cell_text, columns, row))] for row in simple.rows)
            lines = [f"| {' | '.join(row)} |" for row in (titles, under, *rows)]
        case b.Fold():
            lines = [f"**{_text(simple.summary)}**", "", *_of(*simple.blocks)]
        case Titled():
            inside = _of(*simple.blocks)
            if inside or simple.facts:
                title, facts = _text(simple.title), _text(simple.facts)
                lines = [f"### {title}", "", facts, "", *inside]
    return lines
