"""The loops over events, against plain searches that try everything."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.native import events
from traceanalyzer.native.events import Nested

INT64 = st.integers(-(2**63), 2**63 - 1)


def positions(values: list[int]) -> np.ndarray:
    return np.array(values, np.int64)


@st.composite
def nested_events(draw: st.DrawFn) -> Nested:
    """Events of a line or two that nest, in the order in which they begin."""
    start, end, line_begin = [], [], [0]
    spans = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)))
    for line in draw(st.lists(spans, max_size=2)):
        kept: list[tuple[int, int]] = []
        for a, b in sorted({(min(s), max(s)) for s in line}, key=lambda s: (s[0], -s[1])):
            if all(b <= c or d <= a or (a <= c and d <= b) or (c <= a and b <= d) for c, d in kept):
                kept.append((a, b))
        start += [a for a, _ in kept]
        end += [b for _, b in kept]
        line_begin.append(len(start))
    return Nested(np.arange(len(start)), positions(line_begin), positions(start), positions(end))


def enclosing(nested: Nested, event: int) -> list[int]:
    """Return the earlier events of the line that nothing up to this event left, the innermost last.

    An event leaves those that ended before it begins or as it does; an event without duration
    belongs to those that end with it.
    """
    line = int(np.searchsorted(nested.line_begin, event, side="right")) - 1
    start, end = nested.start_ps, nested.end_ps

    def has_left(other: int, k: int) -> bool:
        return end[k] < start[other] or (end[k] == start[other] and end[other] > start[other])

    return [
        k
        for k in range(int(nested.line_begin[line]), event)
        if not any(has_left(other, k) for other in range(k + 1, event + 1))
    ]


@given(nested_events(), st.randoms(use_true_random=False))
def test_innermost_is_the_last_that_began_of_those_that_enclose(nested: Nested, random) -> None:  # noqa: ANN001
    is_container = np.array([random.random() < 0.7 for _ in nested.order], np.bool_)
    found = events.innermost(nested, is_container).tolist()
    for event, container in enumerate(found):
        around = [k for k in enclosing(nested, event) if is_container[k]]
        assert container == (around[-1] if around else -1)


@given(nested_events(), st.randoms(use_true_random=False))
def test_segments_are_what_is_innermost_at_each_moment(nested: Nested, random) -> None:  # noqa: ANN001
    label = np.array([random.choice([-1, 0, 1]) for _ in nested.order], np.int8)
    found = events.flatten(nested, label)
    for line in range(len(nested.line_begin) - 1):
        own = range(*nested.line_begin[line : line + 2].tolist())
        innermost = {}
        for event in own:
            if label[event] >= 0:
                moments = range(int(nested.start_ps[event]), int(nested.end_ps[event]))
                innermost |= dict.fromkeys(moments, event)
        segments = range(*found.begin[line : line + 2].tolist())
        told = [
            (moment, int(found.event[s]))
            for s in segments
            for moment in range(int(found.start_ps[s]), int(found.end_ps[s]))
        ]
        assert told == sorted(innermost.items())


@given(st.lists(st.tuples(st.integers(-2, 4), INT64), max_size=20))
def test_sums_are_exact_modulo_two_to_the_64th(entries: list[tuple[int, int]]) -> None:
    found = events.sum_by(
        positions([code for code, _ in entries]), positions([value for _, value in entries]), 5
    )
    for code in range(5):
        total = sum(value for own, value in entries if own == code)
        assert int(found[code]) == (total + 2**63) % 2**64 - 2**63


threads_and_times = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20)), max_size=6).map(
    sorted
)


@given(
    threads_and_times,
    st.lists(st.integers(0, 6), min_size=6, max_size=6),
    st.lists(st.integers(0, 2), min_size=6, max_size=6),
    threads_and_times,
    threads_and_times,
)
def test_a_turn_was_begun_by_what_ended_last_in_its_call(
    turns: list[tuple[int, int]],
    durations: list[int],
    calls: list[int],
    links: list[tuple[int, int]],
    ended: list[tuple[int, int]],
) -> None:
    threads, starts = (positions(list(t)) for t in zip(*turns, strict=True)) if turns else ([], [])
    end = [t + d for (_, t), d in zip(turns, durations, strict=False)]
    found = events.begun_by_call(
        (
            np.array(threads, np.int32),
            positions(list(starts)),
            positions(end),
            positions(calls[: len(turns)]),
        ),
        (np.array([thread for thread, _ in links], np.int32), positions([t for _, t in links])),
        (positions([call for call, _ in ended]), positions([t for _, t in ended])),
    )
    for k, (thread, at) in enumerate(turns):
        free_since = max((end[j] for j in range(k) if turns[j][0] == thread), default=-1)
        is_linked = any(own == thread and free_since <= t <= at for own, t in links)
        before = [j for j, (call, t) in enumerate(ended) if call == calls[k] and t <= at]
        has_cause = at >= free_since and not is_linked and calls[k] != 0 and before
        assert found[k] == (before[-1] if has_cause else -1)


def test_an_index_out_of_range_is_refused() -> None:
    nested = Nested(positions([0, 7]), positions([0, 2]), positions([0, 1]), positions([3, 2]))
    with pytest.raises(ValueError, match="innermost: column lengths do not match"):
        events.innermost(nested, np.ones(2, np.bool_))
    with pytest.raises(ValueError, match="sum_by: column lengths do not match"):
        events.sum_by(positions([5]), positions([1]), 5)
