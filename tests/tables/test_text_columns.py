"""Dictionary-coded text columns."""

from __future__ import annotations

import numpy as np

from traceanalyzer.tables.text_columns import (
    categorical,
    concatenate,
    constant,
    empty,
    filled,
    mapped,
)
from traceanalyzer.trace.columns import Strings


def column(*texts: str | None, values: tuple[str, ...] | None = None) -> Strings:
    known = values or tuple(dict.fromkeys(t for t in texts if t is not None))
    return Strings(np.array([-1 if t is None else known.index(t) for t in texts], np.int32), known)


def test_columns_are_joined_over_one_set_of_values() -> None:
    joined = concatenate([column("a", None, "b"), column("b", "c"), column()])

    assert joined.to_list() == ["a", None, "b", "b", "c"]
    assert joined.values == ("a", "b", "c")


def test_nothing_joined_is_an_empty_column() -> None:
    assert concatenate([]).to_list() == []


def test_gaps_are_filled_from_another_column() -> None:
    assert filled(column("a", None, None), column("x", "y", None)).to_list() == ["a", "y", None]


def test_a_function_is_applied_to_each_distinct_text() -> None:
    seen = []

    def shout(text: str) -> str | None:
        seen.append(text)
        return text.upper() if text != "no" else None

    assert mapped(column("a", "no", None, "a"), shout).to_list() == ["A", None, None, "A"]
    assert sorted(seen) == ["a", "no"]


def test_one_text_throughout_and_none_at_all() -> None:
    assert constant("x", 3).to_list() == ["x", "x", "x"]
    assert empty(2).to_list() == [None, None]
    assert not empty(2).present.any()


def test_a_categorical_has_only_the_categories_that_occur_each_once() -> None:
    twice = Strings(np.array([0, 2, -1, 1], np.int32), ("a", "b", "a", "unused"))

    found = categorical(twice)

    assert found.tolist()[:2] == ["a", "a"]
    assert found.isna().tolist() == [False, False, True, False]
    assert sorted(found.categories) == ["a", "b"]


def test_a_categorical_of_gaps_and_of_nothing() -> None:
    assert categorical(empty(2)).isna().all()
    assert len(categorical(empty(0))) == 0
