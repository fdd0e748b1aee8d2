"""Models the rate of a pipeline, as recorded or if a stage took more or less time.

A pipeline works in sections. A stage that prepares elements in advance requests its inputs on a
separate thread. The stages before it, up to the next such stage, share that thread, so their work
adds up. Sections run in parallel, so the slowest bounds the rate. The last section is the program's
thread: each step waits for all of its work.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traceanalyzer.tables.stage_events import StageIntervals
from traceanalyzer.timeline.intervals import Intervals, common, inside_ps, union, without
from traceanalyzer.units import PS_PER_US

_MAX_HANDOVER_PS: Final = 200 * PS_PER_US  # waking a thread takes some ten microseconds
# The consuming stage ("" for the program), and whether these are calls of its function.
_Section: TypeAlias = tuple[str, bool]
PROGRAM: Final[_Section] = ("", False)


@dataclass(frozen=True, eq=False, kw_only=True)
class StepWaits:
    """The time that one host's steps waited for input."""

    #: A row for each step of the name that took most time: `step`, `name`, `start_ps`,
    #: `duration_ps`, `wait_ps` (within the step), `wait_before_ps` (between the previous step and
    #: this one), `since_ps` (the start of that time), and `counts`: true for regular steps. The
    #: other figures cover only these.
    table: pd.DataFrame
    steps: int
    begin_ps: NDArray[np.int64]  #: of each step and the wait before it
    end_ps: NDArray[np.int64]
    mean_ps: float  #: wait in and before a step
    share: float  #: of the time of the steps and the waits before them
    other_ps: float  #: median duration of a step without its waits


@dataclass(frozen=True, eq=False)
class Pipeline:
    """One pipeline during the regular steps of a host."""

    stages: Mapping[int, Mapping[str, Any]]  #: by row of the host's table of stages
    work: StageIntervals  #: busy times of stages, by the same rows
    waiting: Intervals  #: when the program waited
    waits: StepWaits

    @cached_property
    def above(self) -> dict[int, int]:
        """The row of each stage's consumer, by the stage's row."""
        rows = {str(stage["stage"]): k for k, stage in self.stages.items()}
        parents = {k: stage["parent"] for k, stage in self.stages.items()}
        return {k: rows[p] for k, p in parents.items() if isinstance(p, str) and p in rows}

    def chain(self, row: int) -> list[int]:
        """Return the rows of a stage and of all stages after it, in order."""
        found = [row]
        while found[-1] in self.above:
            found.append(self.above[found[-1]])
        return found

    def below(self, row: int) -> list[int]:
        """Return the rows of a stage and of all stages before it."""
        return [k for k in self.stages if row in self.chain(k)]

    def section(self, row: int) -> _Section:
        """Return the section in which a stage works."""
        asking = (k for k in self.chain(row) if self.stages[k]["is_async"])
        first = next(asking, None)
        return PROGRAM if first is None else (str(self.stages[first]["stage"]), first == row)

    @cached_property
    def sections(self) -> dict[_Section, list[int]]:
        """The rows of each section."""
        found: dict[_Section, list[int]] = {}
        for k in self.stages:
            found.setdefault(self.section(k), []).append(k)
        return found

    def spans(self, rows: Collection[int]) -> Intervals:
        """Return the intervals in which any of these stages was busy."""
        return _joined([self._spans_of[row] for row in rows])

    @cached_property
    def _spans_of(self) -> dict[int, Intervals]:
        """The intervals in which each stage was busy.

        Between two calls, a stage that prepares elements in advance passes them from thread to
        thread. This time counts as busy, unless a stage before it was busy then.
        """
        found = {}
        for row, stage in self.stages.items():
            own = self.recorded([row])
            if stage["is_async"]:
                joined = union(own.start_ps, own.end_ps - own.start_ps + _MAX_HANDOVER_PS)
                closed = Intervals(joined.start_ps, joined.end_ps - _MAX_HANDOVER_PS)
                inputs = self.recorded([k for k in self.below(row) if k != row])
                own = _joined([own, without(without(closed, own), inputs)])
            found[row] = own
        return found

    def recorded(self, rows: Collection[int]) -> Intervals:
        """Return the recorded intervals in which any of these stages was busy."""
        return times_of(self.work, np.isin(self.work.row, np.array(list(rows), np.int64)))

    def busy_ps(self, rows: Collection[int]) -> float:
        """Return the wall-clock time per step in which any of these stages was busy."""
        return self._per_step(self.spans(rows))

    def calling_ps(self, row: int) -> float:
        """Return the time per step in which calls of a stage's function ran."""
        return self._per_step(self.recorded([row]))

    def in_wait_ps(self, row: int) -> float:
        """Return the time per step in which a stage was busy and the program waited."""
        return self._per_step(common(self._spans_of[row], self.waiting))

    def _per_step(self, times: Intervals) -> float:
        inside = inside_ps(times, self.waits.begin_ps, self.waits.end_ps)
        return float(inside.mean()) if len(inside) else 0.0

    @cached_property
    def own_ps(self) -> float:
        """The time per step in which stages on the program's thread were busy."""
        return self.busy_ps(self.sections.get(PROGRAM, []))

    def slowest_without(self, rows: Iterable[int] = ()) -> float:
        """Return how long the busiest section is busy per step, without the stages in `rows`.

        The program's own section does not count.
        """
        others = (set(members) for section, members in self.sections.items() if section != PROGRAM)
        return max((self.busy_ps(members.difference(rows)) for members in others), default=0.0)

    def wait_if(self, own_ps: float, slowest_ps: float) -> float:
        """Return the wait per step for these values of `own_ps` and `slowest_without`."""
        return own_ps + max(0.0, slowest_ps - self.waits.other_ps - own_ps)


def _joined(times: Sequence[Intervals]) -> Intervals:
    none = np.empty(0, np.int64)
    start = np.concatenate([none, *(each.start_ps for each in times)])
    return union(start, np.concatenate([none, *(each.end_ps for each in times)]) - start)


def times_of(spans: StageIntervals, chosen: NDArray[np.bool_] | slice = slice(None)) -> Intervals:
    """Return the time that the chosen spans cover, without overlaps."""
    start = spans.start_ps[chosen]
    return union(start, spans.end_ps[chosen] - start)


def is_positive(value: Any) -> bool:  # noqa: ANN401 - a cell of a table
    """Return whether a table cell is a positive number or True; False if it is missing."""
    return not pd.isna(value) and value > 0
