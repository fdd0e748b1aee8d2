"""How long each step of a host waited for input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.input_pipeline.records import StepWaits
from traceanalyzer.tables.step_kinds import OUTLIER, REGULAR, main_steps
from traceanalyzer.timeline.intervals import Intervals, inside_ps, union

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from traceanalyzer.tables.stage_events import Spans

__all__ = ["periods", "requested", "step_waits"]

_ALIKE: Final = 2.0  # times what a regular step takes without its wait


def requested(requests: Spans) -> Intervals:
    """Return the times in which the program waited for an element, on whatever thread."""
    return union(requests.start_ps, requests.end_ps - requests.start_ps)


def step_waits(steps: pd.DataFrame, waiting: Intervals) -> StepWaits | None:
    """Return what one host's steps waited; None where it has none.

    Args:
        steps: The host's rows of the table of steps.
        waiting: The times in which the program waited.
    """
    if steps.empty:
        return None
    main = str(main_steps(steps)["name"].iloc[0])
    ordered = steps.sort_values("start_ps", kind="stable")
    start = ordered["start_ps"].to_numpy(np.int64)
    end = start + ordered["duration_ps"].to_numpy(np.int64)
    # Whatever kind of step came before: validation between two epochs is no wait of training.
    since = np.append(start[:1], np.maximum.accumulate(end)[:-1])
    since = np.minimum(since, start)
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
    """Return which steps count: the regular ones, and those that only a wait makes outliers.

    A slow pipeline makes some steps slow, and the others wait for nothing. What sets such a step
    apart is its wait; without it, it takes about as long as the others. A step that is slow for
    another reason, such as a checkpoint, says nothing about the pipeline.
    """
    regular = kind == REGULAR
    wait = table["wait_ps"].to_numpy(np.float64)
    own = table["duration_ps"].to_numpy(np.float64) - wait
    usual = np.median(own[regular]) if regular.any() else 0.0
    alike = (own <= _ALIKE * usual) | (own <= wait)
    counts: NDArray[np.bool_] = regular | ((kind == OUTLIER) & alike)
    return counts


def periods(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return from when to when each step that counts had the program to itself, int64."""
    counted = table[table["counts"]]
    stop = (counted["start_ps"] + counted["duration_ps"]).to_numpy(np.int64)
    return counted["since_ps"].to_numpy(np.int64), stop
