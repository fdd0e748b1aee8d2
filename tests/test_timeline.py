"""Lengths of time on a device."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.timeline import busy_ps


def busy(*spans: tuple[int, int]) -> int:
    """Of spans given as start and duration."""
    start, duration = np.array(spans, np.int64).reshape(-1, 2).T
    return busy_ps(start, duration)


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], 0),
        ([(5, 10)], 10),
        ([(5, 0)], 0),
        ([(0, 10), (20, 5)], 15),
        ([(0, 10), (5, 10)], 15),  # streams overlap: a sum would say 20
        ([(0, 10), (10, 5)], 15),
        ([(0, 100), (5, 10), (50, 10)], 100),
        ([(20, 5), (0, 10), (2, 3)], 15),
        ([(0, 10), (20, -5)], 10),
        ([(0, -10)], 0),
        ([(-50, 10), (-45, 10)], 15),
    ],
)
def test_is_the_union_of_intervals(spans: list[tuple[int, int]], expected: int) -> None:
    assert busy(*spans) == expected


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), max_size=12))
def test_counts_every_moment_once(spans: list[tuple[int, int]]) -> None:
    assert busy(*spans) == len({t for start, length in spans for t in range(start, start + length)})


@given(
    st.lists(
        st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1)), max_size=4
    )
)
def test_times_beyond_reason_do_not_crash_nor_make_less_than_nothing(
    spans: list[tuple[int, int]],
) -> None:
    assert busy(*spans) >= 0


def test_the_arrays_are_left_as_they_are() -> None:
    start, duration = np.array([20, 0]), np.array([5, 10])

    busy_ps(start, duration)

    assert (start.tolist(), duration.tolist()) == ([20, 0], [5, 10])
