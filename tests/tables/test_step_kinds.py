"""Warm-up, outliers, and what the recording cut."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tables.reading import rows, tables_of
from tests.traces import event, host, line, step, us
from traceanalyzer.tables.steps import step_kinds

LETTERS = {"warm_up": "w", "outlier": "o", "partial": "p", "regular": "r"}


def kinds(durations: list[int], partial: tuple[int, ...] = (), once: tuple[int, ...] = ()) -> str:
    """The kinds of steps that follow one another, a letter each; `once` are numbers of steps."""
    duration = np.array(durations, np.int64)
    start = np.cumsum(duration) - duration
    found = step_kinds(
        start, duration, np.isin(np.arange(len(duration)), partial), np.sort(start[list(once)] + 1)
    )
    return "".join(LETTERS[kind] for kind in found)


@pytest.mark.parametrize(
    ("durations", "found"),
    [
        ([], ""),
        ([100], "r"),
        ([900, 100], "rr"),  # which of two is like the rest?
        ([900, 100, 100], "wrr"),
        ([900, 300, 100, 101, 99, 100, 102], "wwrrrrr"),
        ([900, 100, 100, 400, 100, 101], "wrrorr"),
        ([40, 100, 100, 101, 100], "orrrr"),  # what is faster warms nothing up
        ([100, 101, 102, 101, 124, 100], "rrrrrr"),  # within a quarter
        ([60, 140, 80, 120, 100, 150, 70], "rrrrrrr"),  # they differ that much anyway
    ],
)
def test_by_duration(durations: list[int], found: str) -> None:
    assert kinds(durations) == found


def test_what_is_cut_is_no_measure_for_the_others() -> None:
    assert kinds([900, 900, 900, 300, 100, 100, 100], partial=(0, 1, 2)) == "pppwrrr"
    assert kinds([1, 100, 100, 100, 2], partial=(0, 4)) == "prrrp"
    assert kinds([5], partial=(0,)) == "p"


def test_what_is_done_in_every_step_is_no_warming_up() -> None:
    assert kinds([100, 100, 100, 101], once=(0, 1, 2, 3)) == "rrrr"
    assert kinds([900, 100, 100, 101], once=(0, 1, 2, 3)) == "wrrr"


def test_a_program_compiled_in_a_step() -> None:
    table = tables_of(
        host(
            line("python")(*(step(n, us(100 * n, 90)) for n in range(4))),
            line("compiler")(event("backend_compile", us(110, 5))),
            line("python calls")(event("$layers.py:7 compile", us(250, 5))),
        )
    ).steps

    assert rows(table, "kind") == ["regular"] * 4  # not the first

    table = tables_of(
        host(
            line("python")(*(step(n, us(100 * n, 90)) for n in range(1, 5))),
            line("compiler")(event("backend_compile", us(110, 5))),
        )
    ).steps

    assert rows(table, "kind") == ["warm_up", "regular", "regular", "regular"]
