"""The page in the terminal: renders blocks, and knows no section.

The first screen is the answer, the step bar, and the changes, in at most 30 lines; the rest is
printed on request. Names from traces are never read as markup, and what does not show is made
visible.
"""

from __future__ import annotations

from functools import singledispatchmethod
from typing import TYPE_CHECKING, Final, TypeAlias

from rich import box
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text as RichText

from traceanalyzer.format import share
from traceanalyzer.model import blocks as b
from traceanalyzer.report import inline
from traceanalyzer.report.console_text import QUIET, ConsoleText, heading
from traceanalyzer.report.packed import unpack
from traceanalyzer.report.text import cut

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType

_MORE: Final = "Everything: --all. One op: --op REGEX. As a page: traceanalyzer report PATH"
_LINES: Final = 30  # of the first screen
_BAR: Final = 30  # characters of the longest part of a bar
_BARS: Final = 2  # on the first screen
_DETAIL: Final = 90  # characters of what a change is about, on the first screen
_ROWS: Final = 10  # of a table
_CODE_LINES: Final = 12
_WIDEST_CELL: Final = 60  # characters of a name in a table
_NARROW: Final = 64  # characters below which tables keep only what they cannot do without
_IN_ALL: Final = frozenset({"step", "changes"})  # printed first in any case
_NOT_PRINTED: Final = frozenset({"glossary"})
_TONES: Final = {"plain": "", "good": "green", "warning": "yellow", "bad": "red"}
Lines: TypeAlias = "Iterator[RenderableType]"


def print_first_screen(page: b.Page, console: Console) -> None:
    """Print the answer, where a step goes, and what to change; at most 30 lines."""
    shown = _Blocks(console)
    rows = sum(len(table.rows) for table in _tables_of_changes(page))
    # Fewer bars before fewer changes.
    tries = [(bars, most) for most in range(min(rows, _ROWS), -1, -1) for bars in (_BARS, 1)]
    for bars, most in tries:
        parts = (
            *shown.answer(page),
            *shown.step_bar(page, bars),
            *shown.changes(page, most),
            RichText(),
            shown.words(_MORE, QUIET),
        )
        if _height(console, parts) <= _LINES:
            break
    for part in parts:
        console.print(part)


def print_page(page: b.Page, console: Console) -> None:
    """Print all sections."""
    shown = _Blocks(console)
    for part in (*shown.answer(page), *shown.step_bar(page), *shown.changes(page)):
        console.print(part)
    for section in page.sections:
        if section.id not in _IN_ALL:
            console.print(heading(shown.words, section.title))
            for block in section.blocks:
                for part in shown.of(block):
                    console.print(part)


def _tables_of_changes(page: b.Page) -> Iterator[b.Changes]:
    for section in page.sections:
        yield from (block for block in section.blocks if isinstance(block, b.Changes))


def _height(console: Console, parts: tuple[RenderableType, ...]) -> int:
    """Return how many lines parts take on a console."""
    return sum(len(console.render_lines(part)) for part in parts)


def _beginning(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1].rstrip()}…"


class _Blocks:
    """Renders blocks for one console."""

    def __init__(self, console: Console) -> None:
        self.words = ConsoleText(console)
        self.width = console.width
        self._full = "█" if console.encoding.lower().startswith("utf") else "#"

    # --- text ----------------------------------------------------------------------------------

    def inline(self, text: b.Text, style: str = "") -> RichText:
        """Return text within a line; the console wraps it."""
        return self.words.prose(inline.plain(text), style)

    @singledispatchmethod
    def of(self, _: b.Block) -> Lines:
        """Yield what a block shows; nothing for pictures that only a page can show."""
        return iter(())

    # --- the first screen ----------------------------------------------------------------------

    def answer(self, page: b.Page) -> Lines:
        """Yield the facts of the run, what happened, and what to do next."""
        yield self.words(" · ".join(page.facts), QUIET)
        yield self.inline(page.happened, "bold")
        if page.next:
            yield self.inline(page.next)

    def step_bar(self, page: b.Page, most: int | None = None) -> Lines:
        """Yield the bars of the page."""
        for section in page.sections:
            for block in section.blocks:
                if isinstance(block, b.StepBar):
                    yield heading(self.words, section.title)
                    yield from self._step_bar(block, most)
                elif section.id == "step" and most is None:
                    yield from self.of(block)

    def changes(self, page: b.Page, most: int | None = None) -> Lines:
        """Yield the table of changes."""
        for table in _tables_of_changes(page):
            yield heading(self.words, "What to change")
            yield from self._changes(table, most)

    @of.register(b.Note)
    def _note(self, block: b.Note) -> Lines:
        yield self.inline(block.text, _TONES[block.tone])

    @of.register(b.KeyValues)
    def _key_values(self, block: b.KeyValues) -> Lines:
        grid = Grid(box=None, show_header=False, padding=(0, 2, 0, 0))
        grid.add_column(style=QUIET, overflow="fold")
        grid.add_column(overflow="fold")
        for name, text in block.rows:
            grid.add_row(self.words(name), self.inline(text))
        yield grid

    @of.register(b.Bullets)
    def _bullets(self, block: b.Bullets) -> Lines:
        for item in block.items[:_ROWS]:
            yield self.words("- ") + self.inline(item)
        yield from self._left(len(block.items))

    def _left(self, total: int, shown: int = _ROWS) -> Lines:
        if total > shown:
            yield self.words(f"and {total - shown:,} more: see the page", QUIET)

    @of.register(b.Source)
    def _source(self, block: b.Source) -> Lines:
        if block.file:
            yield self.words(f"{block.file}:{block.first_line}", QUIET)
        yield from self._code(block.lines, "    ")

    @of.register(b.Diff)
    def _diff(self, block: b.Diff) -> Lines:
        verified = ", verified by replaying TensorFlow's placer" if block.is_verified else ""
        yield self.words(f"{block.file}:{block.line}{verified}", QUIET)
        yield from self._code(block.old, "  - ", "red")
        yield from self._code(block.new, "  + ", "green")

    def _code(self, lines: tuple[str, ...], margin: str, style: str = "") -> Lines:
        for line in lines[:_CODE_LINES]:
            yield self.words(f"{margin}{line.rstrip().expandtabs(4)}", style)
        yield from self._left(len(lines), _CODE_LINES)

    @of.register(b.DataPath)
    def _data_path(self, block: b.DataPath) -> Lines:
        said = ""
        for at, step in enumerate(block.steps):
            took = "" if step.us is None else f" {inline.quantity(step.us, 'us')}"
            said += f"{step.device.upper()} {cut(step.label, _WIDEST_CELL)}{took}"
            if at < len(block.steps) - 1:
                moved = step.bytes_after
                said += " -> " if moved is None else f" -{inline.quantity(moved, 'bytes')}-> "
        yield self.words(said)

    # --- tables --------------------------------------------------------------------------------

    @of.register(b.Table)
    def _table(self, block: b.Table) -> Lines:
        if block.caption:
            yield self.inline(block.caption, QUIET)
        yield self._grid(block.columns, block.rows[:_ROWS])
        yield from self._left(block.total_rows, min(_ROWS, len(block.rows)))

    @of.register(b.BigTable)
    def _big_table(self, block: b.BigTable) -> Lines:
        values = unpack(block.packed)
        columns = [c for c in block.columns if c.name in values and c.name != block.key]
        columns = columns[: 4 if self.width < 2 * _NARROW else 8]
        rows = [*zip(*(values[c.name][:_ROWS] for c in columns), strict=True)]
        yield self._grid(tuple(columns), tuple(rows))
        yield from self._left(block.packed.total_rows, len(rows))

    def _grid(self, columns: tuple[b.Column, ...], rows: tuple[tuple[b.Cell, ...], ...]) -> Grid:
        grid = Grid(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, header_style="bold")
        for column in columns:
            is_figure = column.kind not in {"text", "code"}
            title = self.words(column.title)
            grid.add_column(title, justify="right" if is_figure else "left", overflow="fold")
        for row in rows:
            grid.add_row(*(self._cell(c, v) for c, v in zip(columns, row, strict=True)))
        return grid

    def _cell(self, column: b.Column, value: b.Cell) -> RichText:
        if value is None:
            return self.words("")
        if isinstance(value, tuple):
            return self.inline(value)
        if isinstance(value, int | float) and column.kind not in {"text", "code"}:
            return self.words(inline.quantity(value, column.kind))
        return self.words(cut(str(value), _WIDEST_CELL))

    @of.register(b.StepBar)
    def _step_bar(self, block: b.StepBar, most: int | None = None) -> Lines:
        for bar in block.bars[:most]:
            if len(block.bars) > 1 or block.unit == "us":
                total = inline.quantity(bar.total, block.unit)
                yield self.words(f"{bar.label}: {total}", QUIET)
            yield self._parts(bar, block.unit)
            if bar.by_placement is not None and bar.total:
                caused = inline.quantity(bar.by_placement, block.unit)
                part = share(bar.by_placement / bar.total)
                yield self.words(f"CPU placement causes {caused} ({part}).", "red")
        if most is not None:
            yield from self._left(len(block.bars), most)
        if block.note:
            yield self.inline(block.note, QUIET)

    def _parts(self, bar: b.Bar, unit: b.Unit) -> Grid:
        grid = Grid(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
        for is_figure in (False, True, True, False):
            grid.add_column(justify="right" if is_figure else "left", overflow="fold")
        longest = max((part.value for part in bar.parts), default=0.0) or 1.0
        for part in bar.parts:
            drawn = self._full * max(1, round(_BAR * part.value / longest))
            grid.add_row(
                self.words(f"  {part.label}"),
                self.words(inline.quantity(part.value, unit)),
                self.words(share(min(1.0, part.value / bar.total) if bar.total else 0.0)),
                *([self.words(drawn, QUIET)] if self.width >= _NARROW else []),
            )
        return grid

    @of.register(b.Changes)
    def _changes(self, block: b.Changes, most: int | None = None) -> Lines:
        grid = Grid(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style=QUIET)
        grid.add_column("", justify="right")
        shown = block.rows[:most]
        is_wide = self.width >= _NARROW
        titles = [
            "Change",
            *(["Where"] if is_wide and any(row.where for row in shown) else []),
            *(["Saves"] if any(row.saves for row in shown) else []),
            *(["Certainty"] if is_wide and any(row.certainty for row in shown) else []),
        ]
        for title in titles:
            grid.add_column(title, overflow="fold")
        for number, row in enumerate(shown, 1):
            cells = {
                "Change": self._change(row, is_short=most is not None),
                "Where": self.inline(row.where),
                "Saves": self._saves(row),
                "Certainty": self.words(row.certainty or ""),
            }
            grid.add_row(self.words(number), *(cells[title] for title in titles))
        yield grid
        yield from self._left(len(block.rows), len(block.rows[:most]))

    def _change(self, row: b.ChangeRow, *, is_short: bool) -> RichText:
        title = self.inline(row.title, "bold")
        if row.detail:
            detail = inline.plain(row.detail)
            shown = _beginning(detail, _DETAIL) if is_short else detail
            title += RichText("\n") + self.words.prose(shown, QUIET)
        return title

    def _saves(self, row: b.ChangeRow) -> RichText:
        saves = self.inline(row.saves) if row.saves else self.words("-", QUIET)
        if row.share is not None:
            saves += self.words(f" ({share(min(1.0, row.share))})", QUIET)
        return saves

    # --- pictures: the figures behind them -----------------------------------------------------

    @of.register(b.Timeline)
    def _timeline(self, block: b.Timeline) -> Lines:
        events = f"{block.events.events_total:,} events on {block.events.lanes_total:,} threads"
        yield self.words(f"{events} and streams: see the page", QUIET)

    @of.register(b.Flows)
    def _flows(self, block: b.Flows) -> Lines:
        columns = (
            b.Column(name="from", title="From", kind="code"),
            b.Column(name="to", title="To", kind="code"),
            b.Column(name="bytes", title="Bytes", kind="bytes"),
            b.Column(name="count", title="Transfers", kind="count"),
            b.Column(name="gpu_wait", title="GPU wait", kind="us"),
        )
        rows = tuple(
            (
                block.nodes[flow.source].label,
                block.nodes[flow.target].label,
                flow.bytes,
                float(flow.count),
                flow.gpu_wait_us,
            )
            for flow in block.flows[:_ROWS]
        )
        yield self._grid(columns, rows)
        yield from self._left(len(block.flows))

    # --- blocks of blocks ----------------------------------------------------------------------

    @of.register(b.Fold)
    def _fold(self, block: b.Fold) -> Lines:
        if block.id in _NOT_PRINTED:
            return
        yield self.inline(block.summary, _TONES[block.tone] or "bold")
        yield from self._inside(block.blocks)

    def _inside(self, blocks: tuple[b.Block, ...]) -> Lines:
        for block in blocks:
            for part in self.of(block):
                yield Padding(part, (0, 0, 0, 2), expand=False)

    @of.register(b.Card)
    def _card(self, block: b.Card) -> Lines:
        yield RichText()
        yield self.inline(block.title, "bold")
        parts = (block.where, block.saves, block.facts, (block.certainty or "",))
        said = [inline.plain(text) for text in parts if inline.plain(text)]
        yield self.words.prose(" · ".join(said), QUIET)
        yield from self._inside(block.blocks)

    @of.register(b.Tabs)
    def _tabs(self, block: b.Tabs) -> Lines:
        for tab in block.tabs:
            yield heading(self.words, tab.title)
            for inner in tab.blocks:
                yield from self.of(inner)
