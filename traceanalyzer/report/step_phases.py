"""What a device did in each step, and what it waited for where it did nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from traceanalyzer.model import StepPhases, Table
from traceanalyzer.tables.step_kinds import main_steps
from traceanalyzer.timeline.breakdown import PHASE_COLUMNS, phases_within
from traceanalyzer.timeline.phase import Phase
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from traceanalyzer.run import Host, Run

__all__ = ["step_phases"]

_MAX_STEPS: Final = 200
_ORDER: Final = (Phase.COMPUTE, Phase.COPY, *(p for p in Phase if p < Phase.COMPUTE))
_LAST: Final = tuple(phase for phase in Phase if phase not in _ORDER)


class _Told(NamedTuple):
    """The steps of a host, and what each phase of a device took of each, in picoseconds."""

    host: str
    device: str | None
    steps: pd.DataFrame
    took: pd.DataFrame

    @property
    def computed(self) -> float:
        """The share of the steps in which it computed."""
        whole = int(self.took.to_numpy().sum())
        return int(self.took[PHASE_COLUMNS[Phase.COMPUTE]].sum()) / whole if whole else 0.0


def step_phases(run: Run) -> StepPhases | None:
    """Return the phases of each step, of the device that computed least: the one that waited most.

    What a program's own thread waited for is told only where no device did anything.

    Returns:
        None where nothing tells of steps, or of what a device or the program waited for.
    """
    told = [one for host in run.hosts for one in _of_host(host)]
    if not told:
        return None
    of_devices = [one for one in told if one.device is not None]
    least = min(of_devices or told, key=lambda one: one.computed)
    return StepPhases(host=least.host, device=least.device, steps=_table(least))


def _of_host(host: Host) -> Iterator[_Told]:
    steps = main_steps(host.tables.steps).sort_values("start_ps", kind="stable")
    if steps.empty:
        return
    start_ps = steps["start_ps"].to_numpy(np.int64)
    duration_ps = steps["duration_ps"].to_numpy(np.int64)
    for device in host.timeline.devices:
        took = phases_within(device.parts, start_ps, duration_ps)
        yield _Told(host.name, device.device, steps, took)
    if host.timeline.program is not None:
        took = phases_within(host.timeline.program, start_ps, duration_ps)
        yield _Told(host.name, None, steps, took)


def _table(told: _Told) -> Table:
    seen = [p for p in (*_ORDER, *_LAST) if told.took[PHASE_COLUMNS[p]].any()]
    columns = {
        "step": told.steps["step"].tolist(),
        "kind": told.steps["kind"].astype(str).tolist(),
        "duration_us": (told.steps["duration_ps"] / PS_PER_US).tolist(),
    }
    for phase in seen:
        took_us = told.took[PHASE_COLUMNS[phase]] / PS_PER_US
        columns[f"{phase.name.lower()}_us"] = took_us.tolist()
    rows = list(zip(*columns.values(), strict=True))
    return Table(columns=tuple(columns), rows=tuple(rows[:_MAX_STEPS]), total_rows=len(rows))
