"""What repeats in a sequence, against a search of every stretch."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.tables.step_inference import pieces, repeat


def codes(text: str) -> np.ndarray:
    return np.array([ord(c) for c in text], np.int32)


def searched(sequence: list[int]) -> tuple[int, int] | None:
    """Period and length of the stretch, by trying all; of several of one period the longest."""
    n = len(sequence)
    for period in range(1, n // 3 + 1):
        lengths = [
            end - begin
            for begin in range(n)
            for end in range(begin + 3 * period, n + 1)
            if 10 * (end - begin) >= 9 * n
            and all(sequence[k] == sequence[k + period] for k in range(begin, end - period))
        ]
        if lengths:
            return period, max(lengths)
    return None


@given(
    st.one_of(
        st.lists(st.integers(0, 2), max_size=24),
        st.builds(
            lambda head, body, times, tail: head + body * times + tail,
            st.lists(st.integers(0, 3), max_size=4),
            st.lists(st.integers(0, 3), min_size=1, max_size=5),
            st.integers(1, 9),
            st.lists(st.integers(0, 3), max_size=4),
        ),
    )
)
def test_finds_what_a_search_of_all_stretches_finds(sequence: list[int]) -> None:
    found = repeat(np.array(sequence, np.int32))

    assert (None if found is None else (found.period, found.end - found.begin)) == searched(
        sequence
    )
    if found is not None:
        inside = sequence[found.begin : found.end]
        assert inside[found.period :] == inside[: -found.period]


@pytest.mark.parametrize(
    "sequence",
    [
        np.tile(np.arange(1000, dtype=np.int32), 300),
        np.concatenate([np.zeros(60_000), [1], np.zeros(60_000), [2], np.zeros(180_000)]),
    ],
)
def test_takes_time_in_proportion(sequence: np.ndarray) -> None:
    began = time.process_time()
    repeat(sequence.astype(np.int32))
    # Comparing every pair of 300 000 would take minutes; this takes some hundredths of a second.
    assert time.process_time() - began < 2


def test_the_pieces_that_are_like_the_commonest() -> None:
    sequence = codes("abcabcabcdabc")

    found = pieces(sequence, np.array([0, 3, 6, 10, 13]))

    assert (found.share, found.size) == (9 / 13, 3)
    assert found.is_common.tolist() == [True, True, False, True]
    assert pieces(sequence, np.array([3, 6, 10])).share == 0  # each there once
    assert pieces(sequence, np.array([0, 3])).share == 0
    assert pieces(sequence, np.array([3])).share == 0
