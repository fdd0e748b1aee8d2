"""In which step a copy was asked for."""

from __future__ import annotations

from typing import Any

import pandas as pd

from traceanalyzer.copy_graph.occasions import Occasions, occasions
from traceanalyzer.tables.schema import COPIES, STEPS


def found(
    steps: list[tuple[str, int, int]], copies: list[tuple[str, int, int | None]]
) -> Occasions:
    """Steps by host, start and duration; copies by host, start and when they were asked for."""

    def column(rows: list[Any], at: int) -> pd.Series:
        return pd.Series([row[at] for row in rows], dtype=object)

    def table(schema: Any, told: dict[str, pd.Series], size: int) -> pd.DataFrame:  # noqa: ANN401
        blank = {
            name: pd.Series([0 if c.dtype in {"int64", "bool"} else None] * size, dtype=object)
            for name, c in schema.columns.items()
        }
        return schema.frame([blank | told])

    marked = {
        "host": column(steps, 0),
        "start_ps": column(steps, 1),
        "duration_ps": column(steps, 2),
    }
    copied = {
        "host": column(copies, 0),
        "start_ps": column(copies, 1),
        "launch_ps": column(copies, 2),
    }
    return occasions(
        table(COPIES, copied, len(copies)),
        table(STEPS, marked, len(steps)),
    )


STEPS_OF_H = [("h", 100, 50), ("h", 200, 50), ("h", 300, 50)]


def test_a_step_goes_on_until_the_next_begins() -> None:
    copies = [("h", at, None) for at in (99, 100, 150, 199, 200)]

    assert found(STEPS_OF_H, copies).step.tolist() == [-1, 0, 0, 0, 1]


def test_the_last_one_goes_on_as_long_as_they_mostly_take() -> None:
    copies = [("h", at, None) for at in (350, 400, 401)]

    assert found(STEPS_OF_H, copies).step.tolist() == [2, 2, -1]


def test_what_counts_is_when_the_host_asked() -> None:
    """The device comes to it a step later."""
    assert found(STEPS_OF_H, [("h", 210, 190), ("h", 210, None)]).step.tolist() == [0, 1]


def test_hosts_have_steps_of_their_own() -> None:
    steps = [("a", 100, 50), ("b", 500, 50), ("b", 600, 50)]
    when = found(steps, [("a", 110, None), ("b", 110, None), ("b", 610, None), ("c", 110, None)])

    assert when.step.tolist() == [0, -1, 2, -1]
    assert when.counts(pd.array([1, 2]).to_numpy()).tolist() == [0, 1]  # of b's two steps
    assert when.counts(pd.array([0, 2]).to_numpy()).tolist() == [1, 0, 1]
    assert when.counts(pd.array([3]).to_numpy()).tolist() == []
