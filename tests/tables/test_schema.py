"""What a table promises."""

from __future__ import annotations

import pandas as pd
import pytest

from traceanalyzer.tables.schema import SCHEMAS, Column, Schema

SCHEMA = Schema(
    "things",
    {
        "name": Column("text", "a text"),
        "size": Column("Int64", "a number or none"),
        "count": Column("int64", "a number"),
        "is_new": Column("bool", "a flag"),
    },
)


def part(**columns: object) -> dict[str, object]:
    return {"name": ["a"], "size": [1], "count": [2], "is_new": [True], **columns}


def test_hosts_are_joined_in_order_with_the_declared_dtypes() -> None:
    small, large = pd.array([1, None], dtype="Int64"), pd.array([None, 2**62 + 1], dtype="Int64")
    table = SCHEMA.frame(
        [
            part(name=["a", "b"], size=small, count=[1, 2], is_new=[True, False]),
            part(name=["b", None], size=large, count=[3, 4], is_new=[False, False]),
        ]
    )

    assert SCHEMA.problems(table) == []
    assert table["name"].astype(object).tolist()[:3] == ["a", "b", "b"]
    assert table["name"].isna().tolist() == [False, False, False, True]
    assert table["size"].isna().tolist() == [False, True, True, False]
    assert table["size"].dropna().tolist() == [1, 2**62 + 1]
    assert table["count"].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda s: s.name)
def test_a_table_without_rows_conforms(schema: Schema) -> None:
    assert schema.problems(schema.frame([])) == []
    nothing = {column: pd.Series([], dtype=object) for column in schema.columns}
    assert schema.problems(schema.frame([nothing, nothing])) == []


def test_problems_name_columns_and_dtypes() -> None:
    table = SCHEMA.frame([part()])

    assert SCHEMA.problems(table.drop(columns="size")) == [
        "columns ['name', 'count', 'is_new'], expected ['name', 'size', 'count', 'is_new']"
    ]
    assert SCHEMA.problems(table.astype({"count": "float64"})) == ["count: float64, expected int64"]
    assert SCHEMA.problems(table.astype({"name": "object"})) == ["name: object, expected text"]
