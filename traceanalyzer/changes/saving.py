"""Computes a change's saving: the time that a GPU or, without one, the program waited for ops."""

from collections.abc import Collection
from functools import cached_property
from typing import Final, Literal

from traceanalyzer.diagnosis import Diagnosis, rare_ops
from traceanalyzer.model.changes import Saving
from traceanalyzer.step_parts import mean_step
from traceanalyzer.tables.steps import regular_steps
from traceanalyzer.units import PS_PER_US

LEAST: Final = 0.02  # of the step or the recording; a smaller saving is not worth a change
_HOST_TIME: Final = "host time of these ops; the trace does not show what a GPU would save"
_ONCE: Final = "host time of these ops, which run once"
_TOGETHER: Final = "only together with the changes that this one depends on"


class Savings:
    """Computes the savings of changes to a run."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        self._run = diagnosis.run
        self._costs = diagnosis.costs
        self._rare = rare_ops(diagnosis.run)
        self._host_ps = dict(
            zip(self._run.ops["op_id"], self._run.ops["host_self_ps"].astype(int), strict=True)
        )
        steps = regular_steps(self._run.steps)
        mean_ps = float(steps["duration_ps"].mean()) if len(steps) else None
        self._step_ps = self._costs.step_ps() or mean_ps

    @cached_property
    def _most_ps(self) -> float:
        """The most that the bar shows for ops, copies, and input; 0 if it shows none of them."""
        step = mean_step(self._run)
        doubt_us = step.cpu_op_doubt_us[1] if step.part_us("cpu_op") else 0.0
        return (step.part_us("cpu_op", "unplaced", "transfer", "input") + doubt_us) * PS_PER_US

    def _share(self, ps: float) -> float | None:
        return min(1.0, ps / self._step_ps) if self._step_ps else None

    def is_rare(self, op_ids: Collection[str]) -> bool:
        """Return whether all of these ops are rare, i.e. not part of each step."""
        return self._rare.keys() >= set(op_ids)

    def of_placement(
        self, op_ids: Collection[str], alone: Collection[str], *, is_prediction: bool = False
    ) -> Saving:
        """Return the saving of moving ops to the GPU; the ops in `alone` need no other change."""
        gain_ps = None if is_prediction else self._costs.gain_ps(op_ids)
        if gain_ps is None:
            return self._host_time(op_ids)
        if not gain_ps:
            return Saving(kind="none", note="the GPU never waited for these ops")
        return Saving(
            kind="upper_bound",
            high_us=gain_ps / PS_PER_US,
            share=self._share(gain_ps),
            note="" if alone else _TOGETHER,
        )

    def _host_time(self, op_ids: Collection[str]) -> Saving:
        """Return the time that the program waited for ops, or their time if that is unknown."""
        per_step = self._costs.program_ps(op_ids)
        if per_step:
            per_step = min(per_step, self._most_ps or per_step)
            # The step waits for no more than the bar shows, whatever other threads do meanwhile.
            waited_ps = mean_step(self._run).ops_us(op_ids) * PS_PER_US
            share = self._share(min(per_step, waited_ps or per_step))
            us = per_step / PS_PER_US
            return Saving(kind="proxy", high_us=us, share=share, note=_HOST_TIME)
        total = self._costs.whole_run_ps(op_ids)
        if total is None:
            total = sum(self._host_ps.get(op_id, 0) for op_id in op_ids)
        is_once = self.is_rare(op_ids)
        if not is_once and not mean_step(self._run).has_steps:
            total = min(total, self._most_ps or total)
        return Saving(
            kind="proxy" if total else "none",
            high_us=total / PS_PER_US,
            per="once" if is_once else "run",
            note=_ONCE if is_once else _HOST_TIME,
        )


def at_most(ps: float, whole_ps: float, note: str, per: Literal["step", "run"] = "step") -> Saving:
    """Return a saving that has only an upper bound, for a step or run that takes `whole_ps`."""
    us, share = ps / PS_PER_US, min(1.0, ps / whole_ps)
    return Saving(kind="upper_bound", high_us=us, share=share, per=per, note=note)
