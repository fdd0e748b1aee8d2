"""In which step each copy was asked for, and how many there are of it in a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.transfers.grouping import codes_of

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

__all__ = ["Occasions", "occasions"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Occasions:
    """The steps of a run, and the copies asked for in each.

    A step lasts here until the next one of its host begins: what a program reads once a step is
    done belongs to it.

    Attributes:
        step: Row of the step table for each copy, -1 for one before the first step or where its
            host has none; int64.
        host: Host of each step, as a code.
        host_of_copy: Host of each copy, in the same codes; -1 where it has no step.
    """

    step: NDArray[np.int64]
    host: NDArray[np.int64]
    host_of_copy: NDArray[np.int64]

    def counts(self, copies: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many of these copies are in each step of their hosts; empty without steps.

        Args:
            copies: Rows of the copy table.
        """
        hosts = np.unique(self.host_of_copy[copies])
        steps = self.step[copies]
        every = np.bincount(steps[steps >= 0], minlength=len(self.host))
        counts: NDArray[np.int64] = every[np.isin(self.host, hosts)]
        return counts


def occasions(copies: pd.DataFrame, steps: pd.DataFrame) -> Occasions:
    """Find the step of each copy, by when it was asked for, else by when it began."""
    began = copies["start_ps"].to_numpy(np.int64)
    when = (
        copies["launch_ps"].fillna(copies["start_ps"]).to_numpy(np.int64) if len(copies) else began
    )
    hosts = {str(name): k for k, name in enumerate(steps["host"].cat.categories)}
    host = codes_of(steps["host"])
    known = [hosts.get(str(name), -1) for name in copies["host"].cat.categories]
    host_of_copy = np.array([*known, -1], np.int64)[codes_of(copies["host"])]
    start = steps["start_ps"].to_numpy(np.int64)
    end = start + steps["duration_ps"].to_numpy(np.int64)
    step = np.full(len(copies), -1, np.int64)
    for code in np.unique(host).tolist():
        rows = np.flatnonzero(host == code)
        rows = rows[np.argsort(start[rows], kind="stable")]
        own = np.flatnonzero(host_of_copy == code)
        place = np.searchsorted(start[rows], when[own], side="right") - 1
        # The last one has no next: it is given as long as they mostly take.
        period = int(np.median(np.diff(start[rows]))) if len(rows) > 1 else 0
        is_over = when[own] > max(int(end[rows].max()), int(start[rows[-1]]) + period)
        step[own] = np.where((place < 0) | is_over, -1, rows[place])
    return Occasions(step=step, host=host, host_of_copy=host_of_copy)
