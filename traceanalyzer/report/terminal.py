"""The page in the terminal: renders blocks, and knows no section.

The first screen has the answer, the step bar, and the changes, in at most 30 lines; the rest is
printed on request. Names from traces are never read as markup, and invisible characters are made
visible.
"""

from __future__ import annotations

from functools import singledispatchmethod
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from msgspec.structs import replace
from rich import box
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from traceanalyzer.format import share
from traceanalyzer.model import blocks as b
from traceanalyzer.report.text import (
    cell_text,
    cut,
    cut_long,
    one_line,
    path_words,
    plain,
    quantity,
    rows_of,
    visible,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import Console, RenderableType

QUIET: Final = "dim"
_MORE: Final = "Everything: --all. One op: --op REGEX. As a page: traceanalyzer report PATH"
_LINES: Final = 30  # of the first screen
_BAR: Final = 30  # characters of the longest part of a bar
_BARS: Final = 2  # on the first screen
_DETAIL: Final = 90  # characters of a change's detail, on the first screen
_ROWS: Final = 10  # of a table
_CODE_LINES: Final = 12
_WIDEST_CELL: Final = 60  # characters of a name in a table
_NARROW: Final = 64  # narrower terminals see only the essential columns
_IN_ALL: Final = frozenset({"step", "changes"})  # printed first in any case
_NOT_PRINTED: Final = frozenset({"glossary"})
_TONES: Final = {"plain": "", "good": "green", "warning": "yellow", "bad": "red"}
# For consoles that lack these characters; any other is printed as its code point.
_ASCII: Final = str.maketrans({"µ": "u", "…": "~", "·": "-", "⟨": "<", "⟩": ">", "\xa0": " "})
Lines: TypeAlias = "Iterator[RenderableType]"
_Side: TypeAlias = Literal["left", "right"]


def print_first_screen(page: b.Page, console: Console) -> None:
    """Print the answer, where a step goes, and what to change; at most 30 lines."""
    screen = Screen(console)
    rows = sum(len(table.rows) for table in _changes_of(page))
    # Fewer bars before fewer changes.
    tries = [(bars, most) for most in range(min(rows, _ROWS), -1, -1) for bars in (_BARS, 1)]
    for bars, most in tries:
        more = (Text(), screen(_MORE, QUIET))
        parts = (*screen.answer(page), *screen.steps_and_changes(page, bars, most), *more)
        if sum(len(console.render_lines(part)) for part in parts) <= _LINES:
            break
    screen.print(parts)


def print_page(page: b.Page, console: Console) -> None:
    """Print all sections."""
    screen = Screen(console)
    screen.print((*screen.answer(page), *screen.steps_and_changes(page)))
    for section in page.sections:
        if section.id not in _IN_ALL:
            screen.print((screen.heading(section.title), *screen.blocks(section.blocks)))


def _changes_of(page: b.Page) -> Iterator[b.Changes]:
    for section in page.sections:
        yield from (block for block in section.blocks if isinstance(block, b.Changes))


class Screen:
    """Renders text and blocks for one console: no markup, only characters that it can show."""

    def __init__(self, console: Console, rows: int = _ROWS) -> None:
        """Render for `console`, with at most `rows` rows of each table."""
        self._console, self._rows = console, rows
        self._is_unicode = console.encoding.lower().startswith("utf")
        self._is_wide = console.width >= _NARROW

    def print(self, parts: Iterable[RenderableType]) -> None:
        """Print renderables; the console wraps their lines."""
        for part in parts:
            self._console.print(part)

    # --- text ----------------------------------------------------------------------------------

    def __call__(self, words: object, style: str = "") -> Text:
        """Return words as text without markup."""
        said = visible(str(words))
        if not self._is_unicode:
            said = said.translate(_ASCII).encode("ascii", "backslashreplace").decode("ascii")
        return Text(said, style=style)

    def prose(self, words: str, style: str = "") -> Text:
        """Return words on one line, for the console to wrap."""
        return self(cut_long(one_line(words)), style)

    def inline(self, text: b.Text, style: str = "") -> Text:
        """Return text within a line."""
        return self.prose(plain(text), style)

    def heading(self, title: str) -> Text:
        """Return a heading with an empty line above it."""
        return Text("\n") + self(title, "bold underline")

    # --- the first screen ----------------------------------------------------------------------

    def answer(self, page: b.Page) -> Lines:
        """Yield the facts of the run, what happened, and what to do next."""
        yield self(" · ".join(page.facts), QUIET)
        yield self.inline(page.happened, "bold")
        if page.next:
            yield self.inline(page.next)

    def steps_and_changes(
        self, page: b.Page, bars: int | None = None, most: int | None = None
    ) -> Lines:
        """Yield the bars and the changes of the page, all or the given numbers of them."""
        for section in page.sections:
            if section.id == "step":
                yield self.heading(section.title)
                for block in section.blocks:
                    if isinstance(block, b.StepBar):
                        yield from self._step_bar(block, bars)
                    elif bars is None:
                        yield from self.of(block)
        for table in _changes_of(page):
            yield self.heading("What to change")
            yield from self._changes(table, most)

    # --- blocks --------------------------------------------------------------------------------

    def blocks(self, blocks: Iterable[b.Block]) -> Lines:
        """Yield the content of blocks."""
        for block in blocks:
            yield from self.of(block)

    @singledispatchmethod
    def of(self, _: b.Block) -> Lines:
        """Yield the content of a block; nothing for pictures that only a page can show."""
        return iter(())

    @of.register(b.Note)
    def _note(self, block: b.Note) -> Lines:
        yield self.inline(block.text, _TONES[block.tone])

    @of.register(b.KeyValues)
    def _key_values(self, block: b.KeyValues) -> Lines:
        grid = Grid(box=None, show_header=False, padding=(0, 2, 0, 0))
        grid.add_column(style=QUIET, overflow="fold")
        grid.add_column(overflow="fold")
        for name, text in block.rows:
            grid.add_row(self(name), self.inline(text))
        yield grid

    @of.register(b.Bullets)
    def _bullets(self, block: b.Bullets) -> Lines:
        for item in block.items[: self._rows]:
            yield self("- ") + self.inline(item)
        yield from self._left(len(block.items), self._rows)

    def _left(self, total: int, shown: int) -> Lines:
        if total > shown:
            yield self(f"and {total - shown:,} more: see the page", QUIET)

    @of.register(b.Source)
    def _source(self, block: b.Source) -> Lines:
        if block.file:
            yield self(f"{block.file}:{block.first_line}", QUIET)
        yield from self._code(block.lines, "    ")

    @of.register(b.Diff)
    def _diff(self, block: b.Diff) -> Lines:
        verified = ", verified by replaying TensorFlow's placer" if block.is_verified else ""
        yield self(f"{block.file}:{block.line}{verified}", QUIET)
        yield from self._code(block.old, "  - ", "red")
        yield from self._code(block.new, "  + ", "green")

    def _code(self, lines: tuple[str, ...], margin: str, style: str = "") -> Lines:
        for line in lines[:_CODE_LINES]:
            yield self(f"{margin}{line.rstrip().expandtabs(4)}", style)
        yield from self._left(len(lines), _CODE_LINES)

    @of.register(b.DataPath)
    def _data_path(self, block: b.DataPath) -> Lines:
        yield self.inline(path_words(block, "->"))

    @of.register(b.Table)
    def _table(self, block: b.Table) -> Lines:
        if block.caption:
            yield self.inline(block.caption, QUIET)
        grid = Grid(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, header_style="bold")
        for column in block.columns:
            is_text = column.kind in {"text", "code"}
            justify: _Side = "left" if is_text else "right"
            grid.add_column(self(column.title), justify=justify, overflow="fold")
        for row in block.rows[: self._rows]:
            grid.add_row(*map(self._cell, block.columns, row))
        yield grid
        yield from self._left(block.total_rows, min(self._rows, len(block.rows)))

    def _cell(self, column: b.Column, value: b.Cell) -> Text:
        if isinstance(value, str):
            return self(cut(value, _WIDEST_CELL))
        return self.inline(cell_text(column, value))

    @of.register(b.BigTable)
    @of.register(b.Flows)
    def _cut_table(self, block: b.BigTable | b.Flows) -> Lines:
        table = rows_of(block, self._rows)
        columns = 4 if self._console.width < 2 * _NARROW else 8
        rows = tuple(row[:columns] for row in table.rows)
        yield from self._table(replace(table, columns=table.columns[:columns], rows=rows))

    @of.register(b.Timeline)
    def _timeline(self, block: b.Timeline) -> Lines:
        events = f"{block.events.events_total:,} events on {block.events.lanes_total:,} threads"
        yield self(f"{events} and streams: see the page", QUIET)

    @of.register(b.StepBar)
    def _step_bar(self, block: b.StepBar, most: int | None = None) -> Lines:
        for bar in block.bars[:most]:
            if len(block.bars) > 1 or block.unit == "us":
                yield self(f"{bar.label}: {quantity(bar.total, block.unit)}", QUIET)
            yield self._parts(bar, block.unit)
            if bar.by_placement is not None and bar.total:
                caused = quantity(bar.by_placement, block.unit)
                part = share(bar.by_placement / bar.total)
                yield self(f"CPU placement causes {caused} ({part}).", "red")
        if most is not None:
            yield from self._left(len(block.bars), most)
        if block.note:
            yield self.inline(block.note, QUIET)

    def _parts(self, bar: b.Bar, unit: b.Unit) -> Grid:
        grid = Grid(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
        sides: tuple[_Side, ...] = ("left", "right", "right", "left")
        for side in sides:
            grid.add_column(justify=side, overflow="fold")
        longest = max((part.value for part in bar.parts), default=0.0) or 1.0
        for part in bar.parts:
            full = "█" if self._is_unicode else "#"
            drawn = full * max(1, round(_BAR * part.value / longest))
            grid.add_row(
                self(f"  {part.label}"),
                self(quantity(part.value, unit)),
                self(share(min(1.0, part.value / bar.total) if bar.total else 0.0)),
                *([self(drawn, QUIET)] if self._is_wide else []),
            )
        return grid

    @of.register(b.Changes)
    def _changes(self, block: b.Changes, most: int | None = None) -> Lines:
        grid = Grid(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style=QUIET)
        grid.add_column("", justify="right")
        shown = block.rows[:most]
        is_known = {
            "Change": True,
            "Where": self._is_wide and any(row.where for row in shown),
            "Saves": any(row.saves for row in shown),
            "Certainty": self._is_wide and any(row.certainty for row in shown),
        }
        for title in filter(is_known.get, is_known):
            grid.add_column(title, overflow="fold")
        for number, row in enumerate(shown, 1):
            cells = {
                "Change": self._change(row, is_short=most is not None),
                "Where": self.inline(row.where),
                "Saves": self._saves(row),
                "Certainty": self(row.certainty or ""),
            }
            grid.add_row(self(number), *(cells[title] for title in filter(is_known.get, cells)))
        yield grid
        yield from self._left(len(block.rows), len(shown))

    def _change(self, row: b.ChangeRow, *, is_short: bool) -> Text:
        title = self.inline(row.title, "bold")
        detail = plain(row.detail)
        if is_short and len(detail) > _DETAIL:
            detail = f"{detail[: _DETAIL - 1].rstrip()}…"
        return title + Text("\n") + self.prose(detail, QUIET) if detail else title

    def _saves(self, row: b.ChangeRow) -> Text:
        saves = self.inline(row.saves) if row.saves else self("-", QUIET)
        if row.share is not None:
            saves += self(f" ({share(min(1.0, row.share))})", QUIET)
        return saves

    # --- blocks of blocks ----------------------------------------------------------------------

    @of.register(b.Fold)
    def _fold(self, block: b.Fold) -> Lines:
        if block.id not in _NOT_PRINTED:
            yield self.inline(block.summary, _TONES[block.tone] or "bold")
            yield from self.inside(block.blocks)

    def inside(self, blocks: Iterable[b.Block]) -> Lines:
        """Yield blocks, indented."""
        for part in self.blocks(blocks):
            yield Padding(part, (0, 0, 0, 2), expand=False)

    @of.register(b.Card)
    def _card(self, block: b.Card) -> Lines:
        yield Text()
        yield self.inline(block.title, "bold")
        parts = (block.where, block.saves, block.facts, (block.certainty or "",))
        yield self.prose(" · ".join(filter(None, map(plain, parts))), QUIET)
        yield from self.inside(block.blocks)

    @of.register(b.Tabs)
    def _tabs(self, block: b.Tabs) -> Lines:
        for tab in block.tabs:
            yield self.heading(tab.title)
            yield from self.blocks(tab.blocks)
