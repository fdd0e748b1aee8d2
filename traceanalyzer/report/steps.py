"""What the report says of steps: how many, where they come from, how long those take that count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.model import StepKinds, Steps
from traceanalyzer.report.packed import Numbers, Texts, pack
from traceanalyzer.report.step_phases import step_phases
from traceanalyzer.tables.step_kinds import OUTLIER, PARTIAL, REGULAR, WARM_UP, main_steps
from traceanalyzer.units import PS_PER_US
from traceanalyzer.wording import counted, listed

if TYPE_CHECKING:
    import pandas as pd

    from traceanalyzer.model import PackedTable
    from traceanalyzer.run import Run

__all__ = ["steps_of"]

_MAX_SHOWN: Final = 500  # as the table of steps has them
_MAX_TIMES: Final = 50_000
_LEFT_OUT: Final = {
    WARM_UP: "warming up at the start",
    OUTLIER: "far from the median",
    PARTIAL: "of which the recording holds only a part",
}


def steps_of(run: Run) -> Steps:
    """Sum up the steps of the kind that took most time: training, where it also evaluates.

    Median and 95th percentile are of the regular ones, of all hosts.
    """
    if run.steps.empty:
        note = "nothing in the trace marks steps, and nothing in it repeats exactly"
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
        times=_times(rows[rows["host"] == busiest]),
        phases=step_phases(run),
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
    return f"nothing in the trace marks steps; inferred: {_INFERRED[sources[0]].format(name)}{also}"


def _times(of_one: pd.DataFrame) -> PackedTable | None:
    """Return every step of a host, up to a bound, where there are more than a table shows."""
    if len(of_one) <= _MAX_SHOWN:
        return None
    shown = of_one.head(_MAX_TIMES)
    kinds = shown["kind"].astype("category")
    columns: dict[str, Numbers | Texts] = {
        "step": Numbers(shown["step"].to_numpy(np.float64)),
        "kind": Texts(kinds.cat.codes.to_numpy(), kinds.cat.categories.astype(str).tolist()),
        "duration_us": Numbers(shown["duration_ps"].to_numpy(np.float64) / PS_PER_US, per=1000),
    }
    return pack(columns, len(of_one))


_INFERRED: Final = {
    "function calls": "the program calls {} over and over, and each call begins a step",
    "repeated ops": "the program runs the same {} over and over",
    "XLA Modules": "the devices run the program {} over and over, and each run begins a step",
    "repeated kernels": "the device runs the same {} over and over",
}


def _left_out(of_one: pd.Series[int]) -> list[str]:
    counts = {kind: int(of_one.get(kind, 0)) for kind in _LEFT_OUT}
    told = [f"{number:,} {_LEFT_OUT[kind]}" for kind, number in counts.items() if number]
    return [f"left out of the figures: {', '.join(told)}"] if told else []


def _overlap(rows: pd.DataFrame) -> list[str]:
    """Say how many steps of a host begin before the one before has ended."""
    ordered = rows.sort_values(["host", "start_ps"], kind="stable")
    end = (ordered["start_ps"] + ordered["duration_ps"]).groupby(ordered["host"], observed=True)
    before = end.cummax().groupby(ordered["host"], observed=True).shift()
    number = int((ordered["start_ps"] < before).sum())
    if not number:
        return []
    verb = "begins" if number == 1 else "begin"
    return [f"{counted(number, 'step')} {verb} before the one before has ended"]
