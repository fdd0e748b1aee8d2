"""How long each step of a host waited for input. Times are picoseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.tables.steps import OUTLIER, REGULAR, main_steps
from traceanalyzer.timeline.intervals import Intervals, inside_ps, union

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from traceanalyzer.tables.stage_events import Spans

_SIMILAR: Final = 2.0  # at most so many times the duration of a regular step without its wait


@dataclass(frozen=True, eq=False, kw_only=True)
class StepWaits:
    """How long one host's steps waited for input.

    `table` has one row per step of the kind that took most time: `step`, `name`, `start_ps`,
    `duration_ps`, `wait_ps` (within the step), `wait_before_ps` (after the step before it: a loop
    may fetch its input outside of what it marks), `since_ps` (where that begins) and `counts`: true
    for regular steps, and for outliers that are slow because they waited. The other figures cover
    only these.
    """

    table: pd.DataFrame
    steps: int
    mean_ps: float  #: wait per step, including the wait before it
    median_ps: float
    share: float  #: of the steps' time, including the waits before them
    other_ps: float  #: median duration of a step without its waits


def requested(requests: Spans) -> Intervals:
    """Return the times in which the program waited for an element, on whatever thread."""
    return union(requests.start_ps, requests.end_ps - requests.start_ps)


def step_waits(steps: pd.DataFrame, waiting: Intervals) -> StepWaits | None:
    """Return how long one host's steps waited; None without steps."""
    if steps.empty:
        return None
    main = str(main_steps(steps)["name"].iloc[0])
    ordered = steps.sort_values("start_ps", kind="stable")
    start = ordered["start_ps"].to_numpy(np.int64)
    end = start + ordered["duration_ps"].to_numpy(np.int64)
    # Whatever kind of step came before: validation between two epochs is no wait of training.
    since = np.minimum(np.append(start[:1], np.maximum.accumulate(end)[:-1]), start)
    mine = (ordered["name"].astype(str) == main).to_numpy()
    table = ordered[mine][["step", "name", "start_ps", "duration_ps"]].reset_index(drop=True)
    table["wait_ps"] = inside_ps(waiting, start, end)[mine]
    table["wait_before_ps"] = inside_ps(waiting, since, start)[mine]
    table["since_ps"] = since[mine]
    table["counts"] = _counts(table, ordered["kind"].astype(str).to_numpy()[mine])
    counted = table[table["counts"]]
    wait = (counted["wait_ps"] + counted["wait_before_ps"]).to_numpy(np.float64)
    whole = (counted["duration_ps"] + counted["wait_before_ps"]).to_numpy(np.float64)
    begin, stop = periods(table)
    return StepWaits(
        table=table,
        steps=len(counted),
        mean_ps=float(wait.mean()) if len(wait) else 0.0,
        median_ps=float(np.median(wait)) if len(wait) else 0.0,
        share=float(wait.sum() / whole.sum()) if whole.sum() else 0.0,
        other_ps=float(np.median(stop - begin - wait)) if len(wait) else 0.0,
    )


def _counts(table: pd.DataFrame, kind: NDArray[np.object_]) -> NDArray[np.bool_]:
    """Return which steps count: the regular ones, and those that are outliers only by their wait.

    Without its wait, such a step takes about as long as the others. A step that is slow for another
    reason, such as a checkpoint, says nothing about the pipeline.
    """
    regular = kind == REGULAR
    wait = table["wait_ps"].to_numpy(np.float64)
    own = table["duration_ps"].to_numpy(np.float64) - wait
    usual = np.median(own[regular]) if regular.any() else 0.0
    is_similar = (own <= _SIMILAR * usual) | (own <= wait)
    counts: NDArray[np.bool_] = regular | ((kind == OUTLIER) & is_similar)
    return counts


def periods(table: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return begin and end of each step that counts, including the wait before it."""
    counted = table[table["counts"]]
    stop = (counted["start_ps"] + counted["duration_ps"]).to_numpy(np.int64)
    return counted["since_ps"].to_numpy(np.int64), stop
