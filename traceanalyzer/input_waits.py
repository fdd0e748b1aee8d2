"""Measures how long steps wait for input, with the figures of the step bar, and finds short epochs.

The verdict on a pipeline comes from the requests for its elements; what these cost comes from the
bar: on a device that is busy meanwhile, a slow request costs nothing.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from traceanalyzer.input_pipeline.verdict import HostInput
from traceanalyzer.model.figures import InputVerdict
from traceanalyzer.run import Host, Run, once_per_run
from traceanalyzer.step_parts import MeanStep, step_parts
from traceanalyzer.tables.steps import regular_steps
from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.timeline.intervals import covered, inside_ps
from traceanalyzer.timeline.walk import Parts, Phase
from traceanalyzer.units import PS_PER_US

_NOTICEABLE: Final = 0.05  # share of a step spent waiting
# Ops that make an iterator. Each epoch over a dataset has its own.
_MAKERS: Final = re.compile(r"MakeIterator|OneShotIterator|MultiDeviceIteratorInit")
_DATASETS: Final = re.compile(r"\w+Dataset(V\d)?")


@dataclass(frozen=True, kw_only=True)
class NewIterators:
    """The iterators that a host's regular steps create."""

    us: float  #: per step, of the part `input`
    in_steps: float  #: share of the steps that create one
    with_dataset: float  #: share of the steps that create a dataset, too

    @property
    def steps_per_epoch(self) -> int:
        """The number of steps that share an iterator."""
        return round(1 / self.in_steps) if self.in_steps else 0


@dataclass(frozen=True, kw_only=True)
class InputWait:
    """The time that one host's regular steps wait for input."""

    host: HostInput
    us: float  #: in a step
    before_us: float  #: before a step, outside of the steps
    step_us: float  #: the duration of a step
    steps: int
    new: NewIterators

    @property
    def share(self) -> float:
        """The share of a step, and of the wait before it."""
        whole = self.step_us + self.before_us
        return min(1.0, (self.us + self.before_us) / whole) if whole else 0.0

    @property
    def is_noticeable(self) -> bool:
        """Whether input takes a noticeable part of a step."""
        return self.share >= _NOTICEABLE

    @property
    def verdict(self) -> InputVerdict:
        """The verdict on the pipeline; one that no step waits for keeps up."""
        is_slow = self.host.verdict == "too_slow"
        return "keeps_up" if is_slow and not self.is_noticeable else self.host.verdict


@once_per_run
def input_waits(run: Run) -> tuple[InputWait, ...]:
    """Return how long the steps of each host with an input pipeline wait for it."""
    return tuple(_waits(run))


def _waits(run: Run) -> Iterator[InputWait]:
    for host in run.hosts:
        if (found := host.input_pipeline) is None or (waits := found.waits) is None:
            continue
        step = MeanStep(tuple(s for s in step_parts(run) if s.host == host.name and s.has_steps))
        counted = waits.table[waits.table["counts"]]
        before_us = float(counted["wait_before_ps"].mean()) / PS_PER_US if len(counted) else 0.0
        if step.us:
            yield InputWait(
                host=found,
                us=step.part_us("input"),
                before_us=before_us,
                step_us=step.us,
                steps=step.steps,
                new=_new_iterators(host),
            )


def worst_wait(run: Run) -> InputWait | None:
    """Return the wait of the host whose steps wait longest; None if unknown."""
    worst = None if run.input_pipeline is None else run.input_pipeline.worst
    return next((wait for wait in input_waits(run) if wait.host is worst), None)


def _new_iterators(host: Host) -> NewIterators:
    """Return the iterators that regular steps create, by the timeline of the bar."""
    steps, ops = regular_steps(host.tables.steps), host.tables.ops
    program = host.timeline.program
    parts = [device.parts for device in host.timeline.devices] if program is None else [program]
    types = ops["type"].astype(str)
    is_eager = (ops["is_eager"] & (ops["role"] == Role.INPUT_PIPELINE)).to_numpy(bool)
    makes = is_eager & types.map(lambda t: bool(_MAKERS.fullmatch(t))).to_numpy(bool)
    datasets = is_eager & types.map(lambda t: bool(_DATASETS.fullmatch(t))).to_numpy(bool)
    if not makes.any() or not parts or steps.empty:
        return NewIterators(us=0.0, in_steps=0.0, with_dataset=0.0)
    within = covered(steps)

    def took_us(each: Parts) -> float:
        chosen = (each.phase == Phase.INPUT) & np.append(is_eager, False)[each.row]
        inside = inside_ps(within, each.start_ps[chosen], each.end_ps[chosen])
        return int(inside.sum()) / len(steps) / PS_PER_US

    def share(of: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> float:
        start = steps["start_ps"].to_numpy(np.int64)
        end = start + steps["duration_ps"].to_numpy(np.int64)
        at = np.sort(parts[0].start_ps[np.append(of, False)[parts[0].row]])
        return float((np.searchsorted(at, end) > np.searchsorted(at, start)).mean())

    return NewIterators(
        us=sum(map(took_us, parts)) / len(parts),
        in_steps=share(makes),
        with_dataset=share(datasets),
    )
