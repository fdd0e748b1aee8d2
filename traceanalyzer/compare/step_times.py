"""Decides whether the step times of two runs differ by more than their usual variation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.model import Report

Times: TypeAlias = "NDArray[np.float64]"
FEWEST_STEPS: Final = 5  # regular steps of a run, below which nothing is claimed
_RESAMPLES: Final = 2_000
_INTERVAL: Final = (2.5, 97.5)  # percentiles: 95 %
# The medians of two runs of one program differ by more than their intervals do, as
# `tests/performance/benchmark_compare.py` measures: by clocks, memory layout, and how fast threads
# wake up. The last is a fixed time, which matters for short steps. The rest is about as large as
# the differences between steps, which are small on an otherwise idle machine.
_BETWEEN_RUNS: Final = 0.05  # of a step, in addition to the steps' interquartile range
_BETWEEN_RUNS_US: Final = 500.0


@dataclass(frozen=True)
class StepTimeChange:
    """The change in median step time between two runs, with a 95 % confidence interval."""

    base_us: float
    new_us: float
    low: float  # the interval of 95 %, as a share of the base
    high: float
    spread_us: float  # the larger interquartile range of both runs' steps

    @property
    def is_seen(self) -> bool:
        """Whether the change exceeds the usual difference between two runs of one program."""
        nearest = max(self.low, -self.high)
        usual_us = self.spread_us + _BETWEEN_RUNS * self.base_us + _BETWEEN_RUNS_US
        return nearest > 0 and abs(self.new_us - self.base_us) > usual_us

    def __str__(self) -> str:
        if not self.is_seen:
            return "no difference seen"
        near, far = sorted((abs(self.low), abs(self.high)))
        how = "slower" if self.low > 0 else "faster"
        shown = [f"{100 * value:.{0 if far >= 0.1 else 1}f}" for value in (near, far)]  # noqa: PLR2004
        return f"{how} by {shown[0] if shown[0] == shown[1] else ' to '.join(shown)} %"


def step_times(report: Report) -> Times:
    """Return the durations of a report's regular steps, in microseconds, in order."""
    rows: Sequence[dict[str, Any]] = report.tables.steps.records()
    regular = [row["duration_us"] for row in rows if row["kind"] == "regular"]
    return np.array([time for time in regular if time], float)


def cpus_taken(report: Report) -> str:
    """Return the warning that other processes used the CPUs during a run, or ""."""
    return next((each.message for each in report.health if each.id == "cpus_taken"), "")


def why_not_compared(base: Report, new: Report) -> str:
    """Return why the step times of two reports cannot be compared; "" if they can be."""
    was, now = (report.run.host_tracer_level for report in (base, new))
    if was is not None and now is not None and was != now:
        return f"host tracer levels {was} and {now} slow down steps by different amounts"
    if min(len(step_times(base)), len(step_times(new))) < FEWEST_STEPS:
        return f"each run needs {FEWEST_STEPS} regular steps"
    runs = (("the base run", base), ("the new run", new))
    disturbed = [run for run, report in runs if cpus_taken(report)]
    if disturbed:
        return f"other processes kept the CPUs busy during {' and '.join(disturbed)}"
    return ""


def compared_step_times(base: Report, new: Report) -> StepTimeChange | None:
    """Return the change in median step time, or None if the runs cannot be compared."""
    if why_not_compared(base, new):
        return None
    return step_time_change(step_times(base), step_times(new))


def step_time_change(base: Times, new: Times) -> StepTimeChange | None:
    """Return the change in median step time, or None if there are too few steps.

    The interval comes from a moving-block bootstrap: it draws blocks of neighboring steps, because
    slow steps come in groups. The same data always give the same result.
    """
    if min(len(base), len(new)) < FEWEST_STEPS:
        return None
    rng = np.random.default_rng(0)
    ratios = _medians(new, rng) / _medians(base, rng) - 1
    low, high = np.percentile(ratios, _INTERVAL)
    spread_us = max(float(np.subtract(*np.percentile(run, (75, 25)))) for run in (base, new))
    medians_us = float(np.median(base)), float(np.median(new))
    return StepTimeChange(*medians_us, float(low), float(high), spread_us)


def _medians(times: Times, rng: np.random.Generator) -> Times:
    count = len(times)
    length = max(1, round(count ** (1 / 3)))
    starts = rng.integers(count, size=(_RESAMPLES, -(-count // length)))
    drawn = (starts[:, :, None] + np.arange(length)) % count
    medians: Times = np.median(times[drawn.reshape(_RESAMPLES, -1)[:, :count]], axis=1)
    return medians
