"""Cutting a device's time and walking back, against what holds at each moment."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.tables.thread_activity import ThreadState
from traceanalyzer.timeline.intervals import Intervals
from traceanalyzer.timeline.walk import Phase, busy_and_idle, walked_back

Span = tuple[int, int]
spans = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=6).map(
    lambda found: sorted((a, a + n) for a, n in found)
)


def columns(found: list[Span]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([a for a, _ in found], np.int64), np.array([b for _, b in found], np.int64)


def disjoint(found: list[Span]) -> list[Span]:
    """Those that begin after all before have ended, with some time between."""
    kept: list[Span] = []
    for a, b in found:
        if a < b and (not kept or a > kept[-1][1]):
            kept.append((a, b))
    return kept


@given(spans.map(disjoint), spans, st.integers(-5, 10), st.integers(0, 40))
def test_a_device_computes_or_copies_or_is_idle(
    busy: list[Span], transfers: list[Span], begin: int, duration: int
) -> None:
    extent = begin, begin + duration
    start, end, phase, transfer = busy_and_idle(
        Intervals(*columns(busy)), columns(transfers), extent
    )
    told = [
        (moment, int(phase[k]), int(transfer[k]))
        for k in range(len(start))
        for moment in range(int(start[k]), int(end[k]))
    ]
    for moment, (at, found, which) in zip(range(*extent), told, strict=True):
        going_on = [k for k, (a, b) in enumerate(transfers) if a <= moment < b]
        assert at == moment
        if any(a <= moment < b for a, b in busy):
            assert (found, which) == (Phase.COMPUTE, -1)
        elif going_on:
            assert (found, which) == (Phase.COPY, going_on[0])
        else:
            assert (found, which) == (Phase.UNATTRIBUTED, -1)


def walk(
    *walked: Span, segments: list[Span], state: list[int], devices: list[Span]
) -> list[tuple[int, ...]]:
    """Walk back from spans' ends on the only thread, the program's: its parts as tuples."""
    n, k = len(walked), len(segments)
    start, end = columns(list(walked))
    found = walked_back(
        [
            start, end, np.zeros(n, np.int32), end, end,
            np.array([0, k]), np.ones(1, np.bool_),
            *columns(segments), np.array(state, np.uint8), np.arange(k, dtype=np.int32),
            np.zeros(k, np.int64),
            np.zeros(2, np.int64), *(np.empty(0, t) for t in (np.int64, np.int32, np.int64)),
            *(np.empty(0, t) for t in (np.int64, np.int64, np.int32)),
            *(np.empty(0, np.int64) for _ in range(6)),
            np.array(sorted(b for _, b in devices), np.int64),
        ]
    )  # fmt: skip
    return [tuple(map(int, part)) for part in zip(*found, strict=True)]


@given(
    spans.map(disjoint), st.lists(st.sampled_from(list(ThreadState)), min_size=6, max_size=6), spans
)
def test_what_the_only_thread_did_accounts_for_each_moment(
    segments: list[Span], did: list[ThreadState], walked: list[Span]
) -> None:
    """Without devices or calls, nothing leads away from the thread."""
    parts = walk(*walked, segments=segments, state=did[: len(segments)], devices=[])
    left = list(parts)
    for begin, end in walked:
        at = end
        while at != begin:
            found = left.pop(0)
            assert found[1] == at
            for moment in reversed(range(found[0], at)):
                k = next((k for k, (a, b) in enumerate(segments) if a <= moment < b), None)
                state = ThreadState.PROGRAM if k is None else did[k]
                is_wait = state in {ThreadState.CALL, ThreadState.WAIT}
                row = -1 if k is None or is_wait else k
                phase = Phase.RUNTIME if is_wait else Phase(state)
                assert found[2:] == (phase, row, phase)
            at = found[0]
    assert not left


def test_threads_that_only_lead_to_each_other_end() -> None:
    none, empty = np.zeros(0, np.int64), np.zeros(0, np.int32)
    zero = np.zeros(1, np.int64)
    found = walked_back(
        [
            zero, zero + 9, np.zeros(1, np.int32), zero + 9, zero + 9,
            np.zeros(3, np.int64), np.zeros(2, np.bool_),
            none, none, none.astype(np.uint8), empty, none,
            np.array([0, 1, 2]), np.array([9, 9]), np.array([1, 0], np.int32), np.array([9, 9]),
            none, none, empty,
            none, none, none, none, none, none.copy(),
            none,
        ]
    )  # fmt: skip
    assert [column.tolist() for column in found[:3]] == [[0], [9], [Phase.UNATTRIBUTED]]
