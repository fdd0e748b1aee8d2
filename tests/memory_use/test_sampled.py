"""A long series in few points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.memory_use.sampled import sampled


def test_a_short_series_stays_whole() -> None:
    assert sampled(np.arange(8), np.arange(8), points=8).tolist() == list(range(8))


def test_nothing_stays_nothing() -> None:
    assert sampled(np.empty(0, np.int64), np.empty(0, np.int64)).tolist() == []


def test_of_each_stretch_of_time_first_lowest_highest_and_last_stay() -> None:
    at = np.array([0, 1, 2, 3, 4, 5, 100, 101, 102, 103, 104, 105])
    level = np.array([5, 9, 6, 1, 6, 5, 5, 5, 8, 6, 2, 7])

    assert sampled(at, level, points=8).tolist() == [0, 1, 3, 5, 6, 8, 10, 11]


def test_a_short_peak_in_a_long_series_stays() -> None:
    level = np.zeros(100_000, np.int64)
    level[[31, 77_777]] = 1, -1

    chosen = sampled(np.arange(100_000) * 10**6, level)

    assert {31, 77_777} <= set(chosen.tolist())
    assert len(chosen) <= 1000


@pytest.mark.parametrize("at", [0, 2**62])
def test_records_of_one_moment_are_one_stretch(at: int) -> None:
    level = np.array([3, 1, 4, 1, 5, 9, 2, 6])

    assert sampled(np.full(8, at), level, points=4).tolist() == [0, 1, 5, 7]


@given(
    st.lists(st.tuples(st.integers(0, 2**60), st.integers(0, 9)), min_size=1, max_size=60),
    st.sampled_from([4, 8, 20]),
)
def test_few_points_with_both_ends_the_lowest_and_the_highest(
    series: list[tuple[int, int]], points: int
) -> None:
    series.sort(key=lambda point: point[0])
    at, level = np.array(series, np.int64).T

    chosen = sampled(at, level, points)

    assert len(chosen) <= points
    assert (np.diff(chosen) > 0).all()
    assert (chosen[0], chosen[-1]) == (0, len(at) - 1)
    assert level[chosen].max() == level.max()
    assert level[chosen].min() == level.min()
