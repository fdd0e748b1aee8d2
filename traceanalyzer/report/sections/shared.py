"""What several sections use."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from traceanalyzer.model.blocks import Code, Link, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from traceanalyzer.changes import Change
    from traceanalyzer.model.blocks import Cell, Column, Inline, Target, Text


class Named(NamedTuple):
    """A change that an op takes part in: its card, and its title."""

    to: Target
    title: str


def changes_by_op(changes: Iterable[Change]) -> dict[str, tuple[Named, ...]]:
    """Return the changes of each op, by op id."""
    found: dict[str, tuple[Named, ...]] = {}
    for change in changes:
        named = Named(f"change-{change.id}", change.title)
        for op_id in change.op_ids:
            found[op_id] = (*found.get(op_id, ()), named)
    return found


def table_of(  # noqa: PLR0913 - what a table has
    columns: Sequence[Column],
    rows: Sequence[Mapping[str, Cell]],
    total_rows: int | None = None,
    *,
    table_id: str = "",
    caption: Text = (),
    ids: Sequence[Target] = (),
) -> Table:
    """Return a table of rows, without the columns that are unknown in every row."""
    known = tuple(c for c in columns if any(row.get(c.name) is not None for row in rows))
    return Table(
        id=table_id,
        columns=known,
        rows=tuple(tuple(row.get(c.name) for c in known) for row in rows),
        total_rows=max(total_rows or 0, len(rows)),
        caption=caption,
        ids=tuple(ids),
    )


def op_link(label: str, op_id: str | None) -> Inline:
    """Return an op's name; it opens the op's drawer if the op is in the table of ops."""
    return Code(text=label) if op_id is None else Link(text=label, to=f"op-{op_id}", is_code=True)
