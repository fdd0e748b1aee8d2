"""How long each step of a host waited for input."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.input_pipeline.records import StepWaits
from traceanalyzer.tables.main_steps import main_steps
from traceanalyzer.tables.step_kinds import REGULAR
from traceanalyzer.timeline.intervals import Intervals, inside_ps, union

if TYPE_CHECKING:
    import pandas as pd

    from traceanalyzer.tables.pipeline_events import Spans

__all__ = ["periods", "requested", "step_waits"]


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
    table["is_regular"] = (ordered["kind"].astype(str) == REGULAR).to_numpy()[mine]
    regular = table[table["is_regular"]]
    wait = (regular["wait_ps"] + regular["wait_before_ps"]).to_numpy(np.float64)
    whole = (regular["duration_ps"] + regular["wait_before_ps"]).to_numpy(np.float64)
    begin, stop = periods(table)
    return StepWaits(
        table=table,
        steps=len(regular),
        mean_ps=float(wait.mean()) if len(wait) else 0.0,
        median_ps=float(np.median(wait)) if len(wait) else 0.0,
        share=float(wait.sum() / whole.sum()) if whole.sum() else 0.0,
        other_ps=float(np.median(stop - begin - wait)) if len(wait) else 0.0,
    )


def periods(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return from when to when each regular step had the program to itself, int64."""
    regular = table[table["is_regular"]]
    stop = (regular["start_ps"] + regular["duration_ps"]).to_numpy(np.int64)
    return regular["since_ps"].to_numpy(np.int64), stop
