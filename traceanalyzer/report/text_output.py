"""Simplifies blocks for the terminal and Markdown.

Charts that only the page can show are left out.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from traceanalyzer.format import counted, share
from traceanalyzer.model import blocks as b
from traceanalyzer.report.packed import unpack
from traceanalyzer.report.text import columns_of, plain, quantity

_BAR: Final = 30  # characters of the longest part of a bar
_NOT_WRITTEN: Final = frozenset({"glossary"})


class Quiet(NamedTuple):
    """A line that is less prominent than a note."""

    text: b.Text


class CodeLines(NamedTuple):
    """Lines of code, shell commands ("sh"), or a diff ("diff")."""

    lines: tuple[str, ...]
    language: str


class Titled(NamedTuple):
    """A titled group of blocks, with facts below the title."""

    title: b.Text
    facts: b.Text
    blocks: tuple[b.Block, ...]


Simple: TypeAlias = b.Note | Quiet | b.KeyValues | b.Bullets | CodeLines | b.Table | b.Fold | Titled


class Form(NamedTuple):
    """The layout of an output: the size limits of tables, and whether bars are drawn."""

    rows: int  # of a table
    columns: int  # of a table of all ops, or of flows
    draws_bars: bool
    more: str = ""  # where the rest is

    def simple(self, block: b.Block) -> Iterator[Simple]:  # noqa: C901, PLR0912 - by kind
        """Convert a block to simple blocks with the same content."""
        match block:
            case b.Note() | b.KeyValues() | b.Bullets():
                yield block
            case b.Source():
                if block.file:
                    yield Quiet((b.Line(file=block.file, line=block.first_line),))
                yield CodeLines(block.lines, block.language)
            case b.Diff():
                verified = ", verified by replaying TensorFlow's placer"
                line = b.Line(file=block.file, line=block.line)
                yield Quiet((line, verified if block.is_verified else ""))
                lines = (*(f"- {old}" for old in block.old), *(f"+ {new}" for new in block.new))
                yield CodeLines(lines, "diff")
            case b.DataPath():
                path: list[b.Inline] = []
                for step in block.steps:
                    took = "" if step.us is None else f" ({quantity(step.us, 'us')})"
                    sent = step.bytes_after
                    moved = "" if sent is None else f"{quantity(sent, 'bytes')} → "
                    name = b.Code(text=step.label) if step.op_id else step.label
                    path += [f"{step.device.upper()}: ", name]
                    path += [took, f" → {moved}"]
                yield b.Note(text=tuple(path[:-1]))
            case b.Table():
                if block.caption:
                    yield Quiet(block.caption)
                yield replace(block, rows=block.rows[: self.rows])
                yield from self.left(block.total_rows, min(self.rows, len(block.rows)))
            case b.BigTable() | b.Flows():
                yield from self.simple(self._table(block))
            case b.Timeline(events=events):
                count = counted(events.events_total, "event")
                lanes = counted(events.lanes_total, "thread or stream")
                yield Quiet((f"{count} on {lanes}{self.more}",))
            case b.Chart() | b.Icicle() if self.more:
                yield Quiet((f"A picture{self.more}",))
            case b.StepBar():
                yield from self.step_bar(block)
            case b.Changes():
                rows = tuple(
                    (f"{number}", row.title, row.where, row.saves, row.certainty)
                    for number, row in enumerate(block.rows, 1)
                )
                yield b.Table(columns=columns_of("changes"), rows=rows, total_rows=len(rows))
            case b.Fold():
                if block.id not in _NOT_WRITTEN:
                    yield block
            case b.Card():
                parts = (block.where, block.saves, (block.certainty or "",), block.facts)
                said = [inline for text in parts if plain(text) for inline in (" · ", *text)]
                yield Titled(block.title, tuple(said[1:]), block.blocks)
            case b.Tabs():
                for tab in block.tabs:
                    yield Titled((tab.title,), (), tab.blocks)

    def _table(self, block: b.BigTable | b.Flows) -> b.Table:
        columns: Sequence[b.Column]
        if isinstance(block, b.BigTable):
            values, total = unpack(block.packed), block.packed.total_rows
            columns = [c for c in block.columns if c.name in values and c.name != block.key]
            columns = columns[: self.columns]
            rows = tuple(zip(*(values[c.name][: self.rows] for c in columns), strict=True))
        else:
            columns, total = columns_of("flows")[: self.columns], len(block.flows)
            labels = [node.label for node in block.nodes]
            rows = tuple(
                (labels[f.source], labels[f.target], f.bytes, f.count, f.gpu_wait_us)[
                    : self.columns
                ]
                for f in block.flows[: self.rows]
            )
        return b.Table(columns=tuple(columns), rows=rows, total_rows=total)

    def step_bar(self, block: b.StepBar, most: int | None = None) -> Iterator[Simple]:
        """Yield all bars, or the first `most` bars, as tables."""
        columns = columns_of("drawn_bar" if self.draws_bars else "bar")
        longest = max((part.value for bar in block.bars for part in bar.parts), default=0.0) or 1.0
        for bar in block.bars[:most]:
            yield Quiet((f"{bar.label}: {quantity(bar.total, block.unit)}",))
            rows = tuple(
                (
                    part.label,
                    (quantity(part.value, block.unit),),
                    min(1.0, part.value / bar.total) if bar.total else 0.0,
                    "█" * max(1, round(_BAR * part.value / longest)),
                )[: len(columns)]
                for part in bar.parts
            )
            yield b.Table(columns=columns, rows=rows, total_rows=len(rows))
            if bar.by_placement is not None and bar.total:
                caused = quantity(bar.by_placement, block.unit)
                said = f"CPU placement costs {caused} ({share(bar.by_placement / bar.total)})."
                yield b.Note(text=(said,), tone="bad")
        yield from self.left(len(block.bars), len(block.bars[:most]))
        if block.note:
            yield Quiet(block.note)

    def left(self, total: int, shown: int) -> Iterator[Quiet]:
        """Yield a line that says how many rows or lines are left out, if any."""
        if total > shown:
            yield Quiet((f"and {total - shown:,} more{self.more}",))


def cell_text(column: b.Column, value: b.Cell) -> b.Text:
    """Return a table's cell as text, or () if its value is unknown."""
    if value is None or isinstance(value, tuple):
        return value or ()
    if isinstance(value, int | float) and is_figure(column):
        return (quantity(value, column.kind),)
    return (b.Code(text=str(value)) if column.kind == "code" else str(value),)


def is_figure(column: b.Column) -> bool:
    """Return whether a column contains numbers rather than text or code."""
    return column.kind not in {"text", "code"}
