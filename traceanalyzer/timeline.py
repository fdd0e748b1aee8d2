"""Intervals of time: when a device was busy, and when the trace began and ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["busy_ps"]

_LIMIT_PS: Final = 2**61  # 26 days; sums of times up to here are exact


def busy_ps(start_ps: NDArray[np.int64], duration_ps: NDArray[np.int64]) -> int:
    """Return the length of the union of intervals: a sum would count overlapping streams twice."""
    if not len(start_ps):
        return 0
    order = np.argsort(start_ps, kind="stable")
    start = start_ps[order].clip(-_LIMIT_PS, _LIMIT_PS)
    end = np.maximum.accumulate(start + duration_ps[order].clip(0, _LIMIT_PS))
    gaps = np.maximum(start[1:] - end[:-1], 0)
    return int(end[-1] - start[0] - gaps.sum())
