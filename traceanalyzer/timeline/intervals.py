"""Represents sets of times as sorted intervals `[start, end)` that neither overlap nor touch."""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

_LIMIT_PS: Final = 2**61  # 26 days; sums of times up to here are exact


class Intervals(NamedTuple):
    """A set of times, as sorted intervals that neither overlap nor touch."""

    start_ps: NDArray[np.int64]  #: ascending
    end_ps: NDArray[np.int64]  #: each later than its start and earlier than the next start

    @property
    def total_ps(self) -> int:
        """The total length of all intervals."""
        return int((self.end_ps - self.start_ps).sum())


def union(start_ps: NDArray[np.int64], duration_ps: NDArray[np.int64]) -> Intervals:
    """Return the union of intervals in any order. Negative durations are ignored."""
    lasting = duration_ps > 0
    start = start_ps[lasting].clip(-_LIMIT_PS, _LIMIT_PS)
    order = np.argsort(start, kind="stable")
    start = start[order]
    end = np.maximum.accumulate(start + duration_ps[lasting][order].clip(0, _LIMIT_PS))
    first = np.append(True, start[1:] > end[:-1])[: len(start)]
    last = np.append(first[1:], True)[: len(start)]
    return Intervals(start[first], end[last])


def durations(table: pd.DataFrame) -> NDArray[np.int64]:
    """Return the durations in a table, with 0 for unknown ones."""
    return np.asarray(table["duration_ps"].astype("Int64").fillna(0), np.int64)


def covered(table: pd.DataFrame) -> Intervals:
    """Return the times that the rows of a table cover."""
    return union(table["start_ps"].to_numpy(np.int64), durations(table))


def common(a: Intervals, b: Intervals) -> Intervals:
    """Return the times that are in both `a` and `b`."""
    return _chosen(a, b, np.logical_and)


def without(a: Intervals, b: Intervals) -> Intervals:
    """Return the times of `a` that are not in `b`."""
    return _chosen(a, b, np.greater)


def _chosen(a: Intervals, b: Intervals, choose: Callable[..., NDArray[np.bool_]]) -> Intervals:
    """Return the times for which `choose(is_in_a, is_in_b)` is true."""
    # All four arrays are sorted, so that a stable sort merges them quickly.
    bounds = np.sort(np.concatenate([*a, *b]), kind="stable")
    start = bounds[:-1]
    kept = choose(*(start < _last_end(times, start) for times in (a, b)))
    return union(start[kept], np.diff(bounds)[kept])


def _last_end(times: Intervals, at_ps: NDArray[np.int64]) -> NDArray[np.int64]:
    begun = np.searchsorted(times.start_ps, at_ps, side="right")
    return np.concatenate([[-_LIMIT_PS], times.end_ps])[begun]


def inside_ps(
    times: Intervals, start_ps: NDArray[np.int64], end_ps: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the overlap of each interval with `times`. Intervals with end < start are empty."""
    return _before(times, np.maximum(start_ps, end_ps)) - _before(times, start_ps)


def _before(times: Intervals, at_ps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the total length of `times` before each time in `at_ps`."""
    at_ps = at_ps.clip(-_LIMIT_PS, 2 * _LIMIT_PS)
    whole = np.concatenate([[0], np.cumsum(times.end_ps - times.start_ps)])
    begun = np.searchsorted(times.start_ps, at_ps, side="right")
    over: NDArray[np.int64] = whole[begun] - np.maximum(_last_end(times, at_ps) - at_ps, 0)
    return over
