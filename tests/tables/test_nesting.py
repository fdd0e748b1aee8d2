"""Which event encloses which, and what of its time is its own."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.tables.reading import host_plane
from tests.traces import event, line, ps
from traceanalyzer.tables.arrays import in_line_order, innermost, self_durations


@st.composite
def nested(draw: st.DrawFn, low: int = 0, high: int = 1000, depth: int = 0) -> list[tuple]:
    """Spans that nest and do not cross: (start, end, parent's position or None)."""
    spans: list[tuple] = []
    at = low
    while at < high and draw(st.booleans()):
        start = draw(st.integers(at, high))
        end = draw(st.integers(start, high))
        spans.append((start, end))
        if depth < 3 and end - start > 1:
            spans += draw(nested(start, end, depth + 1))
        at = max(end, at + 1)
    return spans


@given(nested())
def test_self_times_add_up_to_the_time_that_any_event_covers(spans: list[tuple]) -> None:
    plane = host_plane(line("t")(event("x", ps(a, b - a)) for a, b in spans))
    parent = innermost(plane, in_line_order(plane), np.ones(len(plane), np.bool_))

    own = self_durations(plane.duration_ps, parent)

    covered = {t for a, b in spans for t in range(a, b)}
    assert own.sum() == len(covered)
