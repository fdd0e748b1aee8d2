"""The page as Markdown: one change for an issue or a review, or everything that fits one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from traceanalyzer.format import counted, share
from traceanalyzer.model import blocks as b
from traceanalyzer.report.inline import plain, quantity
from traceanalyzer.report.text import visible

if TYPE_CHECKING:
    from collections.abc import Callable

_LARGEST: Final = 60_000  # characters: what an issue on GitHub may have, and some room
_ROWS: Final = 50
_ACTIVE: Final = re.compile(r"([\\*_{}\[\]<>#|~])")  # what Markdown and HTML would act on
_NOT_WRITTEN: Final = frozenset({"glossary"})


def page_markdown(page: b.Page) -> str:
    """Return the whole review."""
    lines = [f"# {_name(page.title)}", "", _text((" · ".join(page.facts),)), ""]
    lines += [f"**{_text(page.happened)}**", ""]
    if page.next:
        lines += [_text(page.next), ""]
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


def change_markdown(card: b.Card) -> str:
    """Return one change in full."""
    return _joined(_card(card))


def markdown_of(page: b.Page) -> dict[str, str]:
    """Return what the page's buttons copy: each card by its id, and the whole page by ""."""
    cards = [block for s in page.sections for block in s.blocks if isinstance(block, b.Card)]
    return {"": page_markdown(page)} | {card.id: change_markdown(card) for card in cards}


def _joined(lines: list[str]) -> str:
    """Join lines, with one empty line where there are several."""
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines))
    return f"{text.strip()}\n"


def _text(text: b.Text) -> str:
    """Return text within a line. Names become code, in which nothing acts."""
    return "".join(
        _code(plain((inline,), code=""))
        if isinstance(inline, b.Code | b.Line) or (isinstance(inline, b.Link) and inline.is_code)
        else f"**{_name(inline.text)}**"
        if isinstance(inline, b.Strong)
        else _name(plain((inline,)))
        for inline in text
    )


def _name(text: str) -> str:
    return _ACTIVE.sub(r"\\\1", visible(text))


def _code(text: str) -> str:
    text = visible(text)
    marks = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{marks}{space}{text}{space}{marks}" if text else ""


def _of(block: b.Block) -> list[str]:
    """Return the lines of a block, an empty one at the end; none for what only a page can show."""
    render: Callable[..., list[str]] | None = _RENDER.get(type(block))
    return [] if render is None else render(block)


def _note(block: b.Note) -> list[str]:
    return [_text(block.text), ""]


def _key_values(block: b.KeyValues) -> list[str]:
    return [*(f"- {_name(name)}: {_text(text)}" for name, text in block.rows), ""]


def _bullets(block: b.Bullets) -> list[str]:
    return [*(f"- {_text(item)}" for item in block.items), ""]


def _fenced(lines: list[str], language: str = "") -> list[str]:
    """Return lines as code, fenced by more backticks than any of them has."""
    fence = "`" * max(3, *(1 + len(run) for line in lines for run in re.findall("`+", line)), 3)
    return [f"{fence}{language}", *map(visible, lines), fence, ""]


def _source(block: b.Source) -> list[str]:
    place = [f"{_code(f'{block.file}:{block.first_line}')}:", ""] if block.file else []
    return [*place, *_fenced([line.expandtabs(4) for line in block.lines], "python")]


def _diff(block: b.Diff) -> list[str]:
    lines = [f"- {line}" for line in block.old] + [f"+ {line}" for line in block.new]
    verified = ", verified by replaying TensorFlow's placer" if block.is_verified else ""
    return [f"{_code(f'{block.file}:{block.line}')}{verified}:", "", *_fenced(lines, "diff")]


def _data_path(block: b.DataPath) -> list[str]:
    said = ""
    for at, step in enumerate(block.steps):
        took = "" if step.us is None else f" ({quantity(step.us, 'us')})"
        said += f"{step.device.upper()} {_code(step.label)}{took}"
        if at < len(block.steps) - 1:
            moved = step.bytes_after
            said += " → " if moved is None else f" → {quantity(moved, 'bytes')} → "
    return [said, ""]


def _table(block: b.Table) -> list[str]:
    rows = [
        [_cell(c, v) for c, v in zip(block.columns, row, strict=True)] for row in block.rows[:_ROWS]
    ]
    caption = [_text(block.caption), ""] if block.caption else []
    figures = [column.kind not in {"text", "code"} for column in block.columns]
    lines = _rows([_name(column.title) for column in block.columns], rows, figures)
    left = block.total_rows - len(rows)
    more = [f"and {left:,} more", ""] if left > 0 else []
    return [*caption, *lines, *more]


def _rows(titles: list[str], rows: list[list[str]], figures: list[bool]) -> list[str]:
    under = ["--:" if is_figure else "---" for is_figure in figures]
    return [*(f"| {' | '.join(row)} |" for row in (titles, under, *rows)), ""]


def _cell(column: b.Column, value: b.Cell) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return _text(value)
    if isinstance(value, int | float) and column.kind not in {"text", "code"}:
        return quantity(value, column.kind)
    return _code(str(value)) if column.kind == "code" else _name(str(value))


def _step_bar(block: b.StepBar) -> list[str]:
    lines: list[str] = []
    for bar in block.bars:
        lines += [f"{_name(bar.label)}: {quantity(bar.total, block.unit)}", ""]
        rows = [
            [
                _name(part.label),
                quantity(part.value, block.unit),
                str(share(min(1.0, part.value / bar.total)) if bar.total else ""),
            ]
            for part in bar.parts
        ]
        lines += _rows(["Part", "Value", "Share"], rows, [False, True, True])
        if bar.by_placement is not None and bar.total:
            caused = quantity(bar.by_placement, block.unit)
            lines += [f"CPU placement causes {caused} ({share(bar.by_placement / bar.total)}).", ""]
    return [*lines, _text(block.note), ""]


def _changes(block: b.Changes) -> list[str]:
    rows = [
        [
            f"{number}",
            _text(row.title),
            _text(row.where),
            _text(row.saves),
            row.certainty or "",
        ]
        for number, row in enumerate(block.rows, 1)
    ]
    titles = ["#", "Change", "Where", "Saves", "Certainty"]
    return _rows(titles, rows, [True, False, False, False, False])


def _flows(block: b.Flows) -> list[str]:
    rows = [
        [
            _code(block.nodes[flow.source].label),
            _code(block.nodes[flow.target].label),
            "" if flow.bytes is None else quantity(flow.bytes, "bytes"),
            f"{flow.count:,}",
        ]
        for flow in block.flows[:_ROWS]
    ]
    return _rows(["From", "To", "Bytes", "Transfers"], rows, [False, False, True, True])


def _fold(block: b.Fold) -> list[str]:
    if block.id in _NOT_WRITTEN:
        return []
    inside = [line for inner in block.blocks for line in _of(inner)]
    return [f"**{_text(block.summary)}**", "", *inside]


def _card(block: b.Card) -> list[str]:
    parts = (block.where, block.saves, (block.certainty or "",), block.facts)
    said = [_text(text) for text in parts if _text(text)]
    inside = [line for inner in block.blocks for line in _of(inner)]
    return [f"### {_text(block.title)}", "", " · ".join(said), "", *inside]


def _tabs(block: b.Tabs) -> list[str]:
    lines: list[str] = []
    for tab in block.tabs:
        inside = [line for inner in tab.blocks for line in _of(inner)]
        if inside:
            count = "" if tab.count is None else f" ({counted(tab.count, 'row')})"
            lines += [f"### {_name(tab.title)}{count}", "", *inside]
    return lines


_RENDER: Final[dict[type, Callable[..., list[str]]]] = {
    b.Note: _note,
    b.KeyValues: _key_values,
    b.Bullets: _bullets,
    b.Table: _table,
    b.Source: _source,
    b.Diff: _diff,
    b.DataPath: _data_path,
    b.StepBar: _step_bar,
    b.Changes: _changes,
    b.Flows: _flows,
    b.Fold: _fold,
    b.Card: _card,
    b.Tabs: _tabs,
}
