"""Tables of blocks, and what other renderings than the page show in place of its pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.model import blocks as b
from traceanalyzer.report.text import quantity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def table_of(  # noqa: PLR0913 - what a table has
    columns: Sequence[b.Column],
    rows: Sequence[Mapping[str, b.Cell]],
    total_rows: int | None = None,
    *,
    table_id: str = "",
    caption: b.Text = (),
    ids: Sequence[b.Target] = (),
) -> b.Table:
    """Return a table of rows, without the columns that are unknown in every row."""
    known = tuple(c for c in columns if any(row.get(c.name) is not None for row in rows))
    return b.Table(
        id=table_id,
        columns=known,
        rows=tuple(tuple(row.get(c.name) for c in known) for row in rows),
        total_rows=max(total_rows or 0, len(rows)),
        caption=caption,
        ids=tuple(ids),
    )


def path_words(block: b.DataPath, arrow: str) -> b.Text:
    """Return a data path in one line."""
    said: list[b.Inline] = []
    for at, step in enumerate(block.steps):
        took = "" if step.us is None else f" ({quantity(step.us, 'us')})"
        said += [f"{step.device.upper()} ", b.Code(text=step.label), took]
        if at < len(block.steps) - 1:
            moved = step.bytes_after
            said.append(
                f" {arrow} " if moved is None else f" {arrow} {quantity(moved, 'bytes')} {arrow} "
            )
    return tuple(said)


def cell_text(column: b.Column, value: b.Cell) -> b.Text:
    """Return the cell of a table as text; empty if unknown."""
    if value is None or isinstance(value, tuple):
        return value or ()
    if isinstance(value, int | float) and column.kind not in {"text", "code"}:
        return (quantity(value, column.kind),)
    return (b.Code(text=str(value)) if column.kind == "code" else str(value),)
