"""The page as Markdown: one change for an issue or review, or all sections that fit into one."""

from __future__ import annotations

import re
from functools import singledispatch
from typing import TYPE_CHECKING, Final

from traceanalyzer.format import counted, share
from traceanalyzer.model import blocks as b
from traceanalyzer.report.text import cell_text, path_words, plain, quantity, rows_of, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_LARGEST: Final = 60_000  # characters; a GitHub issue can have some more
_ROWS: Final = 50
_ACTIVE: Final = re.compile(r"([\\*_{}\[\]<>#|~])")  # characters with a meaning in Markdown or HTML
_NOT_WRITTEN: Final = frozenset({"glossary"})


def page_markdown(page: b.Page) -> str:
    """Return the whole review."""
    lines = [f"# {_name(page.title)}", "", _text((" · ".join(page.facts),)), ""]
    lines += [f"**{_text(page.happened)}**", "", _text(page.next), ""]
    left_out: dict[str, int] = {}
    room = _LARGEST - sum(map(len, lines))
    for section in page.sections:
        inside: list[str] = []
        for block in section.blocks:
            made = _of(block)
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
    """Return the texts that the page's buttons copy: cards by id, and the whole page by ""."""
    cards = [block for s in page.sections for block in s.blocks if isinstance(block, b.Card)]
    return {"": page_markdown(page)} | {card.id: _joined(_of(card)) for card in cards}


def _joined(lines: Iterable[str]) -> str:
    """Join lines; several empty lines become one."""
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines))
    return f"{text.strip()}\n"


# --- text ------------------------------------------------------------------------------------


def _text(text: b.Text) -> str:
    """Return inline text. Names become code, in which no character has a meaning."""
    return "".join(map(_inline, text))


def _inline(inline: b.Inline) -> str:
    is_name = isinstance(inline, b.Code | b.Line)
    if is_name or (isinstance(inline, b.Link) and inline.is_code):
        return _code(plain((inline,), code=""))
    name = _name(plain((inline,)))
    return f"**{name}**" if isinstance(inline, b.Strong) else name


def _name(text: str) -> str:
    return _ACTIVE.sub(r"\\\1", visible(text))


def _code(text: str) -> str:
    text = visible(text)
    marks = "`" * (1 + _longest_run([text]))
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{marks}{space}{text}{space}{marks}" if text else ""


def _longest_run(lines: Iterable[str]) -> int:
    """Return the length of the longest run of backticks."""
    return max((len(run) for line in lines for run in re.findall("`+", line)), default=0)


def _fenced(lines: Sequence[str], language: str) -> list[str]:
    fence = "`" * max(3, 1 + _longest_run(lines))
    return [f"{fence}{language}", *map(visible, lines), fence, ""]


def _rows(titles: list[str], rows: Iterable[Sequence[str]], figures: Sequence[bool]) -> list[str]:
    under = ["--:" if is_figure else "---" for is_figure in figures]
    return [*(f"| {' | '.join(row)} |" for row in (titles, under, *rows)), ""]


# --- blocks: the lines of each, an empty one at the end ------------------------------------------


@singledispatch
def _of(_: b.Block) -> list[str]:
    """Return the lines of a block; none for blocks that only a page can show."""
    return []


@_of.register
def _note(block: b.Note) -> list[str]:
    return [_text(block.text), ""]


@_of.register
def _key_values(block: b.KeyValues) -> list[str]:
    return [*(f"- {_name(name)}: {_text(text)}" for name, text in block.rows), ""]


@_of.register
def _bullets(block: b.Bullets) -> list[str]:
    return [*(f"- {_text(item)}" for item in block.items), ""]


@_of.register
def _source(block: b.Source) -> list[str]:
    place = [f"{_code(f'{block.file}:{block.first_line}')}:", ""] if block.file else []
    return [*place, *_fenced([line.expandtabs(4) for line in block.lines], block.language)]


@_of.register
def _diff(block: b.Diff) -> list[str]:
    lines = [f"- {line}" for line in block.old] + [f"+ {line}" for line in block.new]
    verified = ", verified by replaying TensorFlow's placer" if block.is_verified else ""
    return [f"{_code(f'{block.file}:{block.line}')}{verified}:", "", *_fenced(lines, "diff")]


@_of.register
def _data_path(block: b.DataPath) -> list[str]:
    return [_text(path_words(block, "→")), ""]


@_of.register
def _table(block: b.Table) -> list[str]:
    caption = [_text(block.caption), ""] if block.caption else []
    rows = [[*map(_text, map(cell_text, block.columns, row))] for row in block.rows[:_ROWS]]
    figures = [column.kind not in {"text", "code"} for column in block.columns]
    lines = _rows([_name(column.title) for column in block.columns], rows, figures)
    left = block.total_rows - len(rows)
    return [*caption, *lines, *([f"and {left:,} more", ""] if left > 0 else [])]


@_of.register
def _cut_table(block: b.BigTable | b.Flows) -> list[str]:
    return _table(rows_of(block, _ROWS))


@_of.register
def _step_bar(block: b.StepBar) -> list[str]:
    lines: list[str] = []
    for bar in block.bars:
        lines += [f"{_name(bar.label)}: {quantity(bar.total, block.unit)}", ""]
        rows = [
            (
                _name(part.label),
                quantity(part.value, block.unit),
                str(share(min(1.0, part.value / bar.total)) if bar.total else ""),
            )
            for part in bar.parts
        ]
        lines += _rows(["Part", "Value", "Share"], rows, [False, True, True])
        if bar.by_placement is not None and bar.total:
            caused = quantity(bar.by_placement, block.unit)
            lines += [f"CPU placement causes {caused} ({share(bar.by_placement / bar.total)}).", ""]
    return [*lines, _text(block.note), ""]


@_of.register
def _changes(block: b.Changes) -> list[str]:
    rows = [
        (f"{number}", *map(_text, (row.title, row.where, row.saves)), row.certainty or "")
        for number, row in enumerate(block.rows, 1)
    ]
    titles = ["#", "Change", "Where", "Saves", "Certainty"]
    return _rows(titles, rows, [True, False, False, False, False])


@_of.register
def _fold(block: b.Fold) -> list[str]:
    if block.id in _NOT_WRITTEN:
        return []
    return [f"**{_text(block.summary)}**", "", *_inside(block.blocks)]


def _inside(blocks: Iterable[b.Block]) -> list[str]:
    return [line for block in blocks for line in _of(block)]


@_of.register
def _card(block: b.Card) -> list[str]:
    parts = (block.where, block.saves, (block.certainty or "",), block.facts)
    said = " · ".join(filter(None, map(_text, parts)))
    return [f"### {_text(block.title)}", "", said, "", *_inside(block.blocks)]


@_of.register
def _tabs(block: b.Tabs) -> list[str]:
    lines: list[str] = []
    for tab in block.tabs:
        inside = _inside(tab.blocks)
        if inside:
            count = "" if tab.count is None else f" ({counted(tab.count, 'row')})"
            lines += [f"### {_name(tab.title)}{count}", "", *inside]
    return lines
