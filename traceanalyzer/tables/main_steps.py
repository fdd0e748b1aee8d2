"""The steps that figures "per step" are of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.tables.step_kinds import REGULAR

if TYPE_CHECKING:
    import pandas as pd


def main_steps(steps: pd.DataFrame) -> pd.DataFrame:
    """Return the steps of the name that took most time: training, where it also evaluates."""
    if steps.empty:
        return steps
    took = steps.groupby(steps["name"].astype(str))["duration_ps"].sum()
    return steps[steps["name"].astype(str) == str(took.idxmax())]


def regular_steps(steps: pd.DataFrame) -> pd.DataFrame:
    """Return those of the main steps that are no warm-up, outlier or cut; all where none is."""
    main = main_steps(steps)
    regular = main[main["kind"].astype(str) == REGULAR]
    return regular if len(regular) else main
