"""Prints the page in the terminal.

The first screen has the answer, the step bar, and the changes, in at most 30 lines. The rest is
printed on request. Names from traces are never interpreted as markup.
"""

from collections.abc import Iterable, Iterator
from typing import Final, Literal, TypeAlias

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from traceanalyzer.format import share
from traceanalyzer.model import blocks as b
from traceanalyzer.report.text import cut, one_line, plain, visible
from traceanalyzer.report.text_output import (
    CodeLines,
    Form,
    Quiet,
    Simple,
    Titled,
    cell_text,
    is_figure,
)

Lines: TypeAlias = "Iterator[RenderableType]"
QUIET: Final = "dim"
_MORE: Final = "Everything: --all. One op: --op REGEX. As a page: traceanalyzer report PATH"
_SEE_PAGE: Final = ": see the page"
_LINES: Final = 30  # of the first screen
_BARS: Final = 2  # on the first screen
_DETAIL: Final = 90  # characters of a change's detail, on the first screen
_ROWS: Final = 10  # of a table
_LONGEST: Final = 2_000  # characters of a text; the Parquet tables have longer names in full
_CODE_LINES: Final = 12
_WIDEST_CELL: Final = 60  # characters of a name in a table
_NARROW: Final = 64  # narrower terminals see only the essential columns
_TONES: Final = {"plain": "", "good": "green", "warning": "yellow", "bad": "red"}
_DIFF: Final = {"-": "red", "+": "green"}
# For consoles that lack these characters; any other is printed as its code point.
_ASCII: Final = str.maketrans(
    {"µ": "u", "…": "~", "·": "-", "⟨": "<", "⟩": ">", "\xa0": " ", "█": "#", "→": "->"}
)


def print_first_screen(page: b.Page, console: Console) -> None:
    """Print the answer, the step bar, and the changes, in at most 30 lines."""
    screen = Screen(console)
    blocks = [block for section in page.sections for block in section.blocks]
    rows = sum(len(block.rows) for block in blocks if isinstance(block, b.Changes))
    # Fewer bars before fewer changes.
    tries = [(bars, most) for most in range(min(rows, _ROWS), -1, -1) for bars in (_BARS, 1)]
    for bars, most in tries:
        parts = (*screen.first(page, bars, most), Text(), screen(_MORE, QUIET))
        if sum(len(console.render_lines(part)) for part in parts) <= _LINES:
            break
    screen.print(parts)


def print_page(page: b.Page, console: Console, more: str = _SEE_PAGE) -> None:
    """Print all sections. `more` says where to find omitted rows."""
    screen = Screen(console, more=more)
    screen.print(screen.answer(page))
    for section in page.sections:
        screen.print((screen.heading(section.title), *screen.blocks(section.blocks)))


class Screen:
    """Renders text and blocks without markup, in characters that the console can show."""

    def __init__(self, console: Console, rows: int = _ROWS, more: str = _SEE_PAGE) -> None:
        self._console = console
        self._is_unicode = console.encoding.lower().startswith("utf")
        columns = 4 if console.width < 2 * _NARROW else 8
        self._form = Form(rows, columns, console.width >= _NARROW, more)

    def print(self, parts: Iterable[RenderableType]) -> None:
        """Print renderables. The console wraps their lines."""
        for part in parts:
            self._console.print(part)

    # --- text ----------------------------------------------------------------------------------

    def __call__(self, words: object, style: str = "") -> Text:
        """Return words as printable text, without interpreting markup."""
        said = visible(str(words))
        if not self._is_unicode:
            said = said.translate(_ASCII).encode("ascii", "backslashreplace").decode("ascii")
        return Text(said, style=style)

    def inline(self, text: b.Text, style: str = "") -> Text:
        """Return inline text as a single line, which the console wraps."""
        return self(cut(one_line(plain(text)), _LONGEST), style)

    def heading(self, title: str) -> Text:
        """Return a heading with an empty line above it."""
        return Text("\n") + self(title, "bold underline")

    # --- the first screen ----------------------------------------------------------------------

    def answer(self, page: b.Page) -> Lines:
        """Yield the facts of the run, the verdict, and the advice."""
        yield self(" · ".join(page.facts), QUIET)
        yield self.inline(page.happened, "bold")
        if page.next:
            yield self.inline(page.next)

    def first(self, page: b.Page, bars: int, most: int) -> Lines:
        """Yield the answer, followed by at most `bars` bars and `most` changes."""
        yield from self.answer(page)
        for section in page.sections:
            for block in section.blocks:
                is_bar = isinstance(block, b.StepBar) and bars > 0
                if is_bar or isinstance(block, b.Changes):
                    yield self.heading(section.title)
                if isinstance(block, b.StepBar) and is_bar:
                    for simple in self._form.step_bar(block, bars):
                        yield from self._simple(simple)
                    bars -= len(block.bars)
                elif isinstance(block, b.Changes):
                    yield from self._changes(block, most)

    # --- blocks --------------------------------------------------------------------------------

    def blocks(self, blocks: Iterable[b.Block]) -> Lines:
        """Yield Rich renderables for blocks."""
        for block in blocks:
            parts = [block] if isinstance(block, b.Changes) else self._form.simple(block)
            for simple in parts:
                yield from self._simple(simple)

    def inside(self, blocks: Iterable[b.Block]) -> Lines:
        """Yield Rich renderables for blocks, indented."""
        for part in self.blocks(blocks):
            yield Padding(part, (0, 0, 0, 2), expand=False)

    def _simple(self, simple: Simple | b.Changes) -> Lines:  # noqa: C901 - by kind
        match simple:
            case b.Note(text=text, tone=tone):
                yield self.inline(text, _TONES[tone])
            case Quiet(text=text):
                yield self.inline(text, QUIET)
            case b.KeyValues(rows=rows):
                grid = Grid(box=None, show_header=False, padding=(0, 2, 0, 0))
                grid.add_column(style=QUIET, overflow="fold")
                grid.add_column(overflow="fold")
                for name, value in rows:
                    grid.add_row(self(name), self.inline(value))
                yield grid
            case b.Bullets(items=items):
                shown = items[: self._form.rows]
                yield from (self("- ") + self.inline(item) for item in shown)
                yield from self._left(len(items), len(shown))
            case CodeLines(lines=lines, language=language):
                for line in lines[:_CODE_LINES]:
                    style = _DIFF[line[0]] if language == "diff" else ""
                    yield self(f"    {line.rstrip().expandtabs(4)}", style)
                yield from self._left(len(lines), min(len(lines), _CODE_LINES))
            case b.Table():
                yield self._table(simple)
            case b.Changes():
                yield from self._changes(simple)
            case b.Fold(summary=summary, tone=tone, blocks=blocks):
                yield self.inline(summary, _TONES[tone] or "bold")
                yield from self.inside(blocks)
            case Titled(title=title, facts=facts, blocks=blocks):
                yield Text("\n") + self.inline(title, "bold")
                yield from ([self.inline(facts, QUIET)] if facts else [])
                yield from self.inside(blocks)

    def _left(self, total: int, shown: int) -> Lines:
        yield from (self.inline(quiet.text, QUIET) for quiet in self._form.left(total, shown))

    def _table(self, table: b.Table) -> Grid:
        has_head = any(column.title for column in table.columns)
        grid = Grid(
            box=box.SIMPLE_HEAD if has_head else None,
            show_header=has_head,
            padding=(0, 1),
            pad_edge=not has_head,
            header_style="bold",
        )
        for column in table.columns:
            justify: Literal["left", "right"] = "right" if is_figure(column) else "left"
            grid.add_column(self(column.title), justify=justify, overflow="fold")
        for row in table.rows:
            grid.add_row(
                *(
                    self(cut(cell, _WIDEST_CELL))
                    if isinstance(cell, str)
                    else self.inline(cell_text(column, cell))
                    for column, cell in zip(table.columns, row, strict=True)
                )
            )
        return grid

    def _changes(self, block: b.Changes, most: int | None = None) -> Lines:
        """Yield all changes in full, or the first `most` changes with shortened details."""
        grid = Grid(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style=QUIET)
        grid.add_column("", justify="right")
        shown = block.rows[:most]
        titles = ["Change", "Where", "Saves", "Certainty"]
        titles = titles if self._form.draws_bars else ["Change", "Saves"]
        for title in titles:
            grid.add_column(title, overflow="fold", max_width=_DETAIL)
        for number, row in enumerate(shown, 1):
            change, detail = self.inline(row.title, "bold"), plain(row.detail)
            if most is not None and len(detail) > _DETAIL:
                detail = f"{detail[: _DETAIL - 1].rstrip()}…"
            of_it = "" if row.share is None else f" ({share(min(1.0, row.share))})"
            cells = {
                "Change": change + Text("\n") + self.inline((detail,), QUIET) if detail else change,
                "Where": self.inline(row.where),
                "Saves": self.inline(row.saves) + self(of_it, QUIET),
                "Certainty": self(row.certainty or "-"),
            }
            grid.add_row(self(number), *(cells[title] for title in titles))
        yield grid
        yield from self._left(len(block.rows), len(shown))
