"""Renders the page as Markdown for GitHub issues: one change, or as much as fits."""

import re
from collections.abc import Iterable
from typing import Final

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
_LARGEST: Final = 60_000  # characters; a GitHub issue can have some more
_ACTIVE: Final = re.compile(r"([\\*_{}\[\]<>#|~])")  # characters with a meaning in Markdown or HTML


def page_markdown(page: b.Page) -> str:
    """Return the page as Markdown, cut to fit in a GitHub issue."""
    lines = [f"# {_name(page.title)}", "", _text((" · ".join(page.facts),)), ""]
    lines += [f"**{_text(page.happened)}**", "", _text(page.next), ""]
    left_out: dict[str, int] = {}
    room = _LARGEST - sum(map(len, lines))
    for section in page.sections:
        inside: list[str] = []
        for made in map(_of, section.blocks):
            room -= sum(len(line) + 1 for line in made)
            if room > 0:
                inside += made
            elif made:
                left_out[section.title] = left_out.get(section.title, 0) + 1
        if inside:
            lines += [f"## {_name(section.title)}", "", *inside]
    if left_out:
        parts = ", ".join(f"{counted(n, 'part')} of “{title}”" for title, n in left_out.items())
        lines.append(f"Left out: {parts}. `traceanalyzer report PATH` shows everything.")
    return _joined(lines)


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
