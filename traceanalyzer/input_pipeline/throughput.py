"""How fast a pipeline is, and how fast it would be if a stage took another time.

A pipeline works in sections. What a stage that makes elements ahead asks of its inputs, it asks on
a thread of its own; all stages from there to the next such stage take turns on that thread, and so
their work adds up. Sections work side by side: the slowest bounds the rate. The last section is the
program's own thread: what its stages take, each step waits for in full.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from traceanalyzer.timeline.intervals import Intervals, common, inside_ps, union, without

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from numpy.typing import NDArray

    from traceanalyzer.tables.stage_events import Spans

__all__ = ["Pipeline", "Section"]

_HANDING_OVER_PS: Final = 200_000_000  # at most: waking a thread takes some ten microseconds
Section = tuple[str, bool]  # the stage that asks ("" for the program), and whether it is calls


@dataclass(frozen=True, eq=False)
class Pipeline:
    """One pipeline during the regular steps of a host.

    Attributes:
        stages: Its rows of the table of stages, by their place in the host's table.
        work: When stages of the host were at work; rows are those places.
        waiting: When the program waited.
        begin_ps: From when each regular step's period lasts, int64.
        end_ps: Until when, int64.
        other_ps: What a step takes without the wait.
        wait_ps: What it waits, the mean.
    """

    stages: Mapping[int, Mapping[str, Any]]
    work: Spans
    waiting: Intervals
    begin_ps: NDArray[np.int64]
    end_ps: NDArray[np.int64]
    other_ps: float
    wait_ps: float

    @cached_property
    def above(self) -> dict[int, int]:
        """The row that takes each row's elements."""
        rows = {str(stage["stage"]): k for k, stage in self.stages.items()}
        parents = {k: stage["parent"] for k, stage in self.stages.items()}
        return {k: rows[p] for k, p in parents.items() if isinstance(p, str) and p in rows}

    def chain(self, row: int) -> list[int]:
        """Return the rows from a stage to the end of the pipeline, itself first."""
        found = [row]
        while found[-1] in self.above:
            found.append(self.above[found[-1]])
        return found

    def below(self, row: int) -> list[int]:
        """Return a stage and all that its elements are made from."""
        return [k for k in self.stages if row in self.chain(k)]

    def section(self, row: int) -> Section:
        """Return the section in which a stage works."""
        if self.stages[row]["is_async"]:
            return str(self.stages[row]["stage"]), True
        for k in self.chain(row)[1:]:
            if self.stages[k]["is_async"]:
                return str(self.stages[k]["stage"]), False
        return "", False

    @cached_property
    def sections(self) -> dict[Section, list[int]]:
        """The rows of each section."""
        found: dict[Section, list[int]] = {}
        for k in self.stages:
            found.setdefault(self.section(k), []).append(k)
        return found

    def spans(self, rows: Collection[int]) -> Intervals:
        """Return when some of these stages were at work."""
        each = [self._spans_of(row) for row in rows]
        start = np.concatenate([np.empty(0, np.int64), *(times.start_ps for times in each)])
        end = np.concatenate([np.empty(0, np.int64), *(times.end_ps for times in each)])
        return union(start, end - start)

    def _spans_of(self, row: int) -> Intervals:
        """Return when a stage was at work.

        Between two calls of one that makes elements ahead lies their handing over from thread to
        thread, which is its work, too: unless its inputs were at work then.
        """
        if row not in self._known:
            own = self.recorded([row])
            if self.stages[row]["is_async"]:
                joined = union(own.start_ps, own.end_ps - own.start_ps + _HANDING_OVER_PS)
                closed = Intervals(joined.start_ps, joined.end_ps - _HANDING_OVER_PS)
                inputs = self.recorded([k for k in self.below(row) if k != row])
                between = without(without(closed, own), inputs)
                start = np.concatenate([own.start_ps, between.start_ps])
                own = union(start, np.concatenate([own.end_ps, between.end_ps]) - start)
            self._known[row] = own
        return self._known[row]

    @cached_property
    def _known(self) -> dict[int, Intervals]:
        return {}

    def recorded(self, rows: Collection[int]) -> Intervals:
        """Return when the trace shows some of these stages at work."""
        mine = np.isin(self.work.row, np.array(list(rows), np.int64))
        start = self.work.start_ps[mine]
        return union(start, self.work.end_ps[mine] - start)

    def busy_ps(self, rows: Collection[int]) -> float:
        """Return the time on the clock, per step, in which some of these stages were at work."""
        return self._per_step(self.spans(rows))

    def calling_ps(self, row: int) -> float:
        """Return the part of a stage's work, per step, in which calls of its function ran."""
        return self._per_step(self.recorded([row]))

    def in_wait_ps(self, rows: Collection[int]) -> float:
        """Return the part of it that fell into the wait."""
        return self._per_step(common(self.spans(rows), self.waiting))

    def _per_step(self, times: Intervals) -> float:
        if not len(self.begin_ps):
            return 0.0
        return float(inside_ps(times, self.begin_ps, self.end_ps).sum() / len(self.begin_ps))

    @cached_property
    def own_ps(self) -> float:
        """Work on the program's own thread, per step."""
        return self.busy_ps(self.sections.get(("", False), []))

    @cached_property
    def slowest_ps(self) -> float:
        """Work of the busiest other section, per step."""
        return self.slowest_without(())

    def slowest_without(self, rows: Iterable[int]) -> float:
        """Return what the busiest section but the program's would have to do without some rows."""
        gone = set(rows)
        busy = [
            self.busy_ps([k for k in held if k not in gone])
            for section, held in self.sections.items()
            if section != ("", False)
        ]
        return max(busy, default=0.0)

    def wait_if(self, own_ps: float, slowest_ps: float) -> float:
        """Return what a step would wait.

        Args:
            own_ps: Work left on the program's thread, per step.
            slowest_ps: Work of the busiest section beside it, per step.
        """
        return own_ps + max(0.0, slowest_ps - self.other_ps - own_ps)
