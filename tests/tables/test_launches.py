"""Which call launched what ran on a device: ids that come again, and clocks that are off."""

from __future__ import annotations

import numpy as np

from traceanalyzer.tables.device_events import launched_by

NONE = -1
US, MS = 10**6, 10**9


def found(
    calls: list[tuple[int, int]], work: list[tuple[int, int]], device: list[int] | None = None
) -> tuple[list[int], list[bool], list[int]]:
    """The call of each piece of work, whether it is sure, and how early each device's clock is."""
    call_id, call_ps = np.array(calls, np.int64).reshape(-1, 2).T
    work_id, work_ps = np.array(work, np.int64).reshape(-1, 2).T
    number = np.array(device if device is not None else [0] * len(work), np.int64)
    launched = launched_by(call_id, call_ps, work_id, work_ps, number)
    return launched.call.tolist(), launched.is_sure.tolist(), launched.early_ps.tolist()


def test_of_calls_with_one_id_the_last_before_the_work_is_taken() -> None:
    calls = [(1, 10), (1, 50), (1, 90)]

    assert found(calls, [(1, 15), (1, 17), (1, 55), (1, 95)])[:2] == ([0, 0, 1, 2], [True] * 4)


def test_it_is_not_sure_where_an_earlier_call_has_no_work_of_its_own() -> None:
    """What began after the second call may have waited in a queue since the first."""
    calls = [(1, 10), (1, 50), (1, 90), (2, 10), (2, 20)]

    assert found(calls, [(1, 55), (1, 95), (2, 15), (2, 25)])[:2] == (
        [1, 2, 3, 4],
        [False, False, True, True],
    )


def test_it_is_not_sure_where_the_next_call_has_no_work_of_its_own() -> None:
    """What began right before the second call may be its own, by a clock that drifted."""
    assert found([(1, 10), (1, 50)], [(1, 15), (1, 49)])[:2] == ([0, 0], [False, False])
    assert found([(1, 10), (1, 50)], [(1, 15), (1, 17), (1, 55)])[1] == [True] * 3
    assert found([(1, 10), (1, 50), (2, 60), (2, 70)], [(1, 15), (1, 55)])[1] == [True] * 2


def test_what_began_before_all_calls_with_its_id_was_launched_by_none_of_them() -> None:
    assert found([(1, 50), (1, 90)], [(1, 20), (1, 60), (1, 95)])[:2] == (
        [NONE, 0, 1],
        [False, True, True],
    )
    long_before = 50 - 2 * MS
    assert found([(1, 50), (2, 60)], [(1, long_before), (1, 55), (2, 65), (2, 66)])[0] == [
        NONE,
        0,
        1,
        1,
    ]


def test_all_of_a_graph_of_an_early_device_was_launched_by_its_one_call() -> None:
    """Only 2 of its 200 pieces seem to begin before it, as few as may be of other calls."""
    calls = [(k, k * MS) for k in range(1, 101)]
    early = [(k, at + (5 + 10 * n - 20) * US) for k, at in calls for n in range(200)]

    call, is_sure, early_ps = found(calls, early)

    assert early_ps == [15 * US]
    assert call == [k for k in range(100) for _ in range(200)]
    assert all(is_sure)


def test_a_graph_that_a_drifting_clock_puts_before_its_call_is_whole() -> None:
    calls = [(1, 0), (2, MS), (3, 2 * MS)]
    work = [(1, US), (2, MS + US), (3, 2 * MS - US), (3, 2 * MS + US), (3, 2 * MS + 3 * US)]

    assert found(calls, work) == ([0, 1, 2, 2, 2], [True] * 5, [0])


def test_each_device_has_a_clock_of_its_own() -> None:
    calls = [(k, 100 * k) for k in range(1, 9)]
    early = [(k, 100 * k - 35) for k in range(1, 5)]
    right = [(k, 100 * k + 5) for k in range(5, 9)]

    call, is_sure, early_ps = found(calls, [*early, *right], [0] * 4 + [1] * 4)

    assert early_ps == [35, 0]
    assert call == list(range(8))
    assert all(is_sure)


def test_work_of_an_early_clock_finds_the_last_call_before_it_on_the_hosts() -> None:
    calls = [(1, 100), (1, 500), (2, 200), (3, 300), (4, 400)]
    early = [(1, 470), (1, 70), (2, 165), (3, 265), (4, 365)]

    call, is_sure, early_ps = found(calls, early)

    assert early_ps == [35]
    assert call == [1, 0, 2, 3, 4]
    assert all(is_sure)


def test_times_that_no_recording_holds_do_no_harm() -> None:
    """Those of a damaged file may be any."""
    assert found([(1, 2**62)], [(1, -(2**62))]) == ([0], [True], [2**63 - 1])
