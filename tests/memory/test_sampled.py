"""A long series in few points."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.memory.use import sampled


def test_a_short_peak_in_a_long_series_stays() -> None:
    level = np.zeros(100_000, np.int64)
    level[[31, 77_777]] = 1, -1

    chosen = sampled(np.arange(100_000) * 10**6, level)

    assert {31, 77_777} <= set(chosen.tolist())
    assert len(chosen) <= 1000


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
