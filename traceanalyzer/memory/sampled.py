"""A long series of levels in few points, such that none of its peaks is lost."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


_A_STRETCH: Final = 4  # points: its first, its lowest, its highest and its last


def sampled(
    at_ps: NDArray[np.int64], level: NDArray[np.int64], points: int = 1000
) -> NDArray[np.int64]:
    """Choose the points that draw a series as all of them would, at that many points' width.

    The time is cut into equal stretches, and of each the first, the lowest, the highest and the
    last point stay. The last one counts: it is the level that holds until the next.

    Args:
        at_ps: When, rising, int64.
        level: The level from then on, int64.
        points: How many to choose at most.

    Returns:
        Indices, rising, int64.
    """
    n = len(at_ps)
    if n <= points:
        return np.arange(n, dtype=np.int64)
    inner = np.linspace(float(at_ps[0]), float(at_ps[-1]), points // _A_STRETCH + 1)[1:-1]
    begin = np.unique([0, *np.searchsorted(at_ps, inner).tolist(), n])
    chosen = {
        int(k)
        for first, end in pairwise(begin.tolist())
        for k in (
            first,
            first + level[first:end].argmin(),
            first + level[first:end].argmax(),
            end - 1,
        )
    }
    return np.array(sorted(chosen), np.int64)
