"""Where the time of each step went, for each device by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pandas as pd

from traceanalyzer.timeline.intervals import inside_ps, union
from traceanalyzer.timeline.phase import Phase

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from traceanalyzer.timeline.walk import Parts


PHASE_COLUMNS: Final = {phase: f"{phase.name.lower()}_ps" for phase in Phase}
"""Name of the column that holds the time of each phase."""


def phases_within(
    parts: Parts, start_ps: NDArray[np.int64], duration_ps: NDArray[np.int64]
) -> pd.DataFrame:
    """Return how much of each interval, a step mostly, went to each phase.

    Args:
        parts: What a device did.
        start_ps: Starts of the intervals, int64.
        duration_ps: Their durations, int64.

    Returns:
        A row an interval, a column a phase (`PHASE_COLUMNS`), int64 picoseconds. They add up to
        the interval, as far as it lies between the first and the last part.
    """
    end_ps = start_ps + duration_ps.clip(0)
    columns = {}
    for phase, name in PHASE_COLUMNS.items():
        chosen = parts.phase == phase
        times = union(parts.start_ps[chosen], parts.duration_ps[chosen])
        columns[name] = inside_ps(times, start_ps, end_ps)
    return pd.DataFrame(columns)
