"""In which step each transfer was requested, and how many a step has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.transfers.ends import codes_of

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class TransferSteps:
    """The steps of a run, and the transfers requested in each.

    A step lasts here until the next one of its host begins: what a program reads after a step
    belongs to it.
    """

    step: NDArray[np.int64]  #: row of the step table for each transfer, -1 for none
    host_of_step: NDArray[np.int64]  #: as a code
    host_of_transfer: NDArray[np.int64]  #: in the same codes; -1 if it has no step

    def counts(self, transfers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many of these rows are in each step of their hosts; empty without steps."""
        steps = self.step[transfers]
        counts = np.bincount(steps[steps >= 0], minlength=len(self.host_of_step))
        return counts[np.isin(self.host_of_step, self.host_of_transfer[transfers])]


def transfer_steps(transfers: pd.DataFrame, steps: pd.DataFrame) -> TransferSteps:
    """Find the step of each transfer, by when it was requested or, if unknown, by its start."""
    when = transfers["launch_ps"].fillna(transfers["start_ps"]).to_numpy(np.int64)
    hosts = list(steps["host"].cat.categories)
    known = [hosts.index(h) if h in hosts else -1 for h in transfers["host"].cat.categories]
    host_of_transfer = np.array([*known, -1], np.int64)[codes_of(transfers["host"])]
    host_of_step = codes_of(steps["host"])
    start = steps["start_ps"].to_numpy(np.int64)
    end = start + steps["duration_ps"].to_numpy(np.int64)
    step = np.full(len(transfers), -1, np.int64)
    for code in np.unique(host_of_step).tolist():
        rows = np.flatnonzero(host_of_step == code)
        rows = rows[np.argsort(start[rows], kind="stable")]
        own = np.flatnonzero(host_of_transfer == code)
        place = np.searchsorted(start[rows], when[own], side="right") - 1
        # No other step follows the last one: it lasts as long as the median step.
        period = int(np.median(np.diff(start[rows]))) if len(rows) > 1 else 0
        is_over = when[own] > max(int(end[rows].max()), int(start[rows[-1]]) + period)
        step[own] = np.where((place < 0) | is_over, -1, rows[place])
    return TransferSteps(step, host_of_step, host_of_transfer)
