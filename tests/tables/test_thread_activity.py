"""What threads did when, and what set them going."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.tables.reading import tables_of
from tests.traces import call, event, executor, host, line, op, thread, us
from traceanalyzer.native.events import Nested, flatten
from traceanalyzer.tables.thread_activity import ThreadActivity, ThreadState

US = 1_000_000


def activity_of(*lines: object) -> ThreadActivity:
    found = tables_of(host(*lines)).threads  # type: ignore[arg-type]
    assert found is not None
    return found


def did(threads: ThreadActivity, name: str) -> list[tuple[float, float, str]]:
    """What a thread did: start, end in us, what."""
    thread = threads.name.index(name)
    own = slice(threads.begin[thread], threads.begin[thread + 1])
    return [
        (start / US, end / US, ThreadState(state).name)
        for start, end, state in zip(
            threads.start_ps[own], threads.end_ps[own], threads.state[own], strict=True
        )
    ]


def test_a_pool_that_tells_is_believed_and_a_turn_elsewhere_follows_its_call() -> None:
    threads = activity_of(
        line("python")(
            event("ThreadpoolListener::Record", us(2), _pt=13, _p=99),
            call("__inference_f_1", us(5, 90), step=7),
        ),
        thread("tf_Compute", 1)(
            event("ThreadpoolListener::StartRegion", us(8), _ct=13, _c=99),
            executor(us(10, 10), step=7)(op("a", "TopKV2", us(11, 5))),
        ),
        thread("tf_Compute", 2)(executor(us(30, 10), step=7)),
    )

    begun_by = [
        (threads.name[thread], at / US, threads.name[source], begun / US, proved)
        for thread, (first, end) in enumerate(pairwise(threads.links.begin))
        for at, source, begun, proved in zip(
            *(column[first:end] for column in threads.links[1:]), strict=True
        )
    ]

    assert begun_by == [
        ("tf_Compute/1", 8, "python", 2, True),
        ("tf_Compute/2", 30, "tf_Compute/1", 16, False),
    ]


spans = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30)), max_size=12)


@given(spans)
def test_segments_cover_each_moment_of_nested_events_once(found: list[tuple[int, int]]) -> None:
    nested = sorted(_nested(found), key=lambda s: (s[0], -s[1]))
    start = np.array([s for s, _ in nested], np.int64)
    end = np.array([e for _, e in nested], np.int64)
    label = np.zeros(len(nested), np.int8)
    order = np.arange(len(nested), dtype=np.int64)

    begin, seg_start, seg_end, event_of = flatten(
        Nested(order, np.array([0, len(nested)]), start, end), label
    )

    assert begin.tolist() == [0, len(seg_start)]
    assert (seg_end > seg_start).all()
    assert (seg_start[1:] >= seg_end[:-1]).all()
    for s, e, k in zip(seg_start, seg_end, event_of, strict=True):
        inner = [(b, a) for a, b in nested if a <= s and e <= b]
        assert min(inner, key=lambda i: i[0] - i[1]) == (end[k], start[k])
    covered = {t for s, e in nested for t in range(s, e)}
    assert sum(int(e - s) for s, e in zip(seg_start, seg_end, strict=True)) == len(covered)


def _nested(found: list[tuple[int, int]]) -> set[tuple[int, int]]:
    """Of intervals those that neither cross another nor are the same as one."""
    kept: set[tuple[int, int]] = set()
    for start, length in found:
        end = start + length
        if length and all(
            end <= a or b <= start or (a <= start and end <= b) or (start <= a and b <= end)
            for a, b in kept
        ):
            kept.add((start, end))
    return kept
