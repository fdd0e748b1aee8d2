"""Phases within steps."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.timeline.breakdown import phases_within
from traceanalyzer.timeline.phase import Phase
from traceanalyzer.timeline.walk import Parts


def parts(*lengths: tuple[Phase, int]) -> Parts:
    """Parts that follow on each other, from 0."""
    took = np.array([length for _, length in lengths], np.int64)
    end = np.cumsum(took)
    n = len(lengths)
    return Parts(
        end - took,
        end,
        np.array([phase for phase, _ in lengths], np.uint8),
        np.full(n, -1, np.int32),
        np.full(n, -1, np.int64),
        np.ones(n, np.bool_),
    )


def test_a_part_that_crosses_a_step_is_divided() -> None:
    found = phases_within(
        parts((Phase.COMPUTE, 10), (Phase.HOST_OP, 20), (Phase.COMPUTE, 10)),
        np.array([0, 25]),
        np.array([25, 15]),
    )

    assert found["compute_ps"].tolist() == [10, 10]
    assert found["host_op_ps"].tolist() == [15, 5]
    assert found.sum(axis=1).tolist() == [25, 15]


@given(
    st.lists(st.tuples(st.sampled_from(list(Phase)), st.integers(1, 30)), min_size=1, max_size=20),
    st.lists(st.integers(0, 400), min_size=2, max_size=8, unique=True).map(sorted),
)
def test_steps_add_up(lengths: list[tuple[Phase, int]], bounds: list[int]) -> None:
    whole = parts(*lengths)
    start, end = np.array(bounds[:-1]), np.array(bounds[1:])

    found = phases_within(whole, start, end - start)

    last = int(whole.end_ps[-1])
    assert found.sum(axis=1).tolist() == [
        max(0, min(e, last) - min(s, last)) for s, e in pairwise(bounds)
    ]
