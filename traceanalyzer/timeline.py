"""Intervals of time: when a device was busy, and when the trace began and ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["busy_ps"]


def busy_ps(start_ps: NDArray[np.int64], duration_ps: NDArray[np.int64]) -> int:
    """Return the length of the union of intervals: a sum would count overlapping streams twice."""
    if not len(start_ps):
        return 0
    order = np.argsort(start_ps, kind="stable")
    start = start_ps[order]
    end = np.maximum.accumulate(start + np.maximum(duration_ps[order], 0))
    gaps = np.maximum(start[1:] - end[:-1], 0)
    return int(end[-1] - start[0] - gaps.sum())
