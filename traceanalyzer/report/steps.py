"""Steps in the report: how they were found, and how long they took."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.format import counted, listed
from traceanalyzer.model.times import StepKinds, Steps
from traceanalyzer.tables.steps import OUTLIER, PARTIAL, REGULAR, WARM_UP, main_steps
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    import pandas as pd

    from traceanalyzer.run import Run

_LEFT_OUT: Final = {
    WARM_UP: "warming up at the start",
    OUTLIER: "far from the median",
    PARTIAL: "recorded only in part",
}
_INFERRED: Final = {
    "function calls": "the program calls {} repeatedly, and each call begins a step",
    "repeated ops": "the program runs the same {} repeatedly",
}


def steps_of(run: Run) -> Steps:
    """Sum up the steps of the kind that took most time, e.g. training rather than evaluation."""
    if run.steps.empty:
        note = "the trace marks no steps, and nothing in it repeats exactly"
        return Steps(source="missing", note=note, count=0)
    rows = main_steps(run.steps)
    kinds = rows["kind"].astype(str)
    took_us = rows["duration_ps"].to_numpy(np.float64)[kinds == REGULAR] / PS_PER_US
    is_inferred = bool(rows["is_inferred"].all())
    busiest = rows.groupby("host", observed=True).size().idxmax()
    of_one = kinds[rows["host"] == busiest].value_counts()
    return Steps(
        source="inferred" if is_inferred else "markers",
        note="; ".join([_origin(rows, run.steps), *_left_out(of_one), *_overlap(rows)]),
        # Hosts take the same steps, each for itself.
        count=int(of_one.sum()),
        kinds=StepKinds(**{k: int(of_one.get(k, 0)) for k in (REGULAR, *_LEFT_OUT)}),
        median_us=float(np.median(took_us)) if len(took_us) else None,
        p95_us=float(np.percentile(took_us, 95)) if len(took_us) else None,
    )


def _origin(rows: pd.DataFrame, steps: pd.DataFrame) -> str:
    name = str(rows["name"].iloc[0])
    sources = sorted(set(rows["source"].astype(str)))
    others = sorted({str(other) for other in steps["name"].unique()} - {name})
    also = f"; also: {listed(others)}" if others else ""
    if not rows["is_inferred"].all():
        return f"marked {name} ({', '.join(sources)}){also}"
    return f"the trace marks no steps; inferred: {_INFERRED[sources[0]].format(name)}{also}"


def _left_out(of_one: pd.Series[int]) -> list[str]:
    counts = {kind: int(of_one.get(kind, 0)) for kind in _LEFT_OUT}
    parts = [f"{number:,} {_LEFT_OUT[kind]}" for kind, number in counts.items() if number]
    return [f"left out of the figures: {', '.join(parts)}"] if parts else []


def _overlap(rows: pd.DataFrame) -> list[str]:
    """Say how many steps of a host begin before the previous one ends."""
    ordered = rows.sort_values(["host", "start_ps"], kind="stable")
    end = (ordered["start_ps"] + ordered["duration_ps"]).groupby(ordered["host"], observed=True)
    before = end.cummax().groupby(ordered["host"], observed=True).shift()
    number = int((ordered["start_ps"] < before).sum())
    if not number:
        return []
    verb = "begins" if number == 1 else "begin"
    return [f"{counted(number, 'step')} {verb} before the previous one ends"]
