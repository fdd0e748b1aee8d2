from __future__ import annotations

from traceanalyzer.model import Table
from traceanalyzer.report.views.grids import ROWS_SHOWN, grid


def test_a_column_without_a_value_is_named_and_left_out() -> None:
    table = Table(columns=("name", "bytes", "why"), rows=(("a", None, None),), total_rows=1)
    shown = grid(table)
    assert [column.name for column in shown.columns] == ["name"]
    assert shown.unknown == ("Bytes", "Why")


def test_kinds_of_columns() -> None:
    table = Table(
        columns=("op_id", "op", "name", "step", "count", "copy_us", "h2d_bytes", "busy_share"),
        rows=(("k", "MatMul", "sgemm", 3, 4, 5.0, 6, 0.7),),
        total_rows=1,
    )
    kinds = {column.name: column.kind for column in grid(table).columns}
    assert kinds == {
        "op": "op",
        "name": "name",
        "step": "number",
        "count": "count",
        "copy_us": "time",
        "h2d_bytes": "bytes",
        "busy_share": "share",
    }


def test_a_key_is_not_shown_beside_the_name_it_stands_for() -> None:
    table = Table(
        columns=("producer", "producer_name", "consumer"),
        rows=(("7be2", "MatMul", "c09d"),),
        total_rows=1,
    )
    assert [column.name for column in grid(table).columns] == ["producer_name", "consumer"]


def test_rows_are_cut_with_their_count() -> None:
    table = Table(columns=("name",), rows=tuple((f"op{i}",) for i in range(300)), total_rows=4697)
    shown = grid(table)
    assert (len(shown.rows), shown.total_rows) == (ROWS_SHOWN, 4697)


def test_directions_are_told_in_words_that_people_read() -> None:
    rows = tuple((direction, 1) for direction in ("h2d", "d2h", None))
    shown = grid(Table(columns=("direction", "count"), rows=rows, total_rows=3))
    assert [row["direction"] for row in shown.rows] == ["host to device", "device to host", None]
