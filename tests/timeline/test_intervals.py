"""Sets of times."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.timeline.intervals import Intervals, common, inside_ps, union, without


def busy(*spans: tuple[int, int]) -> int:
    """Of spans given as start and duration."""
    start, duration = np.array(spans, np.int64).reshape(-1, 2).T
    return union(start, duration).total_ps


@given(
    st.lists(
        st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1)), max_size=4
    )
)
def test_times_beyond_reason_do_not_crash_nor_make_less_than_nothing(
    spans: list[tuple[int, int]],
) -> None:
    assert busy(*spans) >= 0


spans = st.lists(st.tuples(st.integers(-20, 60), st.integers(-2, 30)), max_size=12)


def moments(times: Intervals) -> set[int]:
    return {
        t
        for start, end in zip(times.start_ps.tolist(), times.end_ps.tolist(), strict=True)
        for t in range(start, end)
    }


def times(spans: list[tuple[int, int]]) -> Intervals:
    start, duration = np.array(spans, np.int64).reshape(-1, 2).T
    return union(start, duration)


@given(spans)
def test_a_union_is_sorted_and_its_intervals_do_not_touch(found: list[tuple[int, int]]) -> None:
    joined = times(found)

    assert (joined.end_ps > joined.start_ps).all()
    assert (joined.start_ps[1:] > joined.end_ps[:-1]).all()
    assert moments(joined) == {t for s, d in found for t in range(s, s + d)}


@given(spans, spans)
def test_what_is_common_and_what_is_left(
    one: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    a, b = times(one), times(other)

    assert moments(common(a, b)) == moments(a) & moments(b)
    assert moments(without(a, b)) == moments(a) - moments(b)
    assert common(a, b).total_ps + without(a, b).total_ps == a.total_ps


@given(spans, spans)
def test_how_much_of_each_interval_lies_inside(
    one: list[tuple[int, int]], asked: list[tuple[int, int]]
) -> None:
    start, duration = np.array(asked, np.int64).reshape(-1, 2).T

    found = inside_ps(times(one), start, start + duration)

    held = moments(times(one))
    assert found.tolist() == [len(held & set(range(s, s + d))) for s, d in asked]
