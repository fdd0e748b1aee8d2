"""Read blocks as a reader does."""

from collections.abc import Iterable
from typing import Any, TypeVar

from traceanalyzer.model.blocks import (
    BigTable,
    Block,
    Cell,
    Code,
    Line,
    Link,
    Quantity,
    Strong,
    Table,
    Text,
)
from traceanalyzer.report.packed import unpack

B = TypeVar("B")


def only(blocks: Iterable[Block], kind: type[B]) -> B:
    """Return the one block of a kind."""
    (found,) = [block for block in blocks if isinstance(block, kind)]
    return found


def plain(text: Text) -> str:
    """Return text without links and marks; figures keep their unit."""
    return "".join(map(_plain, text))


def _plain(part: Any) -> str:  # noqa: ANN401
    if isinstance(part, Code | Link | Strong):
        return part.text
    if isinstance(part, Line):
        return part.file if part.line is None else f"{part.file}:{part.line}"
    return f"{part.value:g} {part.unit}" if isinstance(part, Quantity) else str(part)


def records(table: Table | BigTable) -> list[dict[str, Any]]:
    """Return rows by column, text cells without links; an unknown column is left out."""
    if not isinstance(table, Table):
        columns = unpack(table.packed)
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    names = [column.name for column in table.columns]
    return [dict(zip(names, map(_cell, row), strict=True)) for row in table.rows]


def _cell(cell: Cell) -> str | float | None:
    return plain(cell) if isinstance(cell, tuple) else cell
