"""Computes facts about a run that several sections of the page share."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

import pandas as pd

from traceanalyzer.diagnosis import NOT_RECORDED, Diagnosis, cpu_ops, rare_ops
from traceanalyzer.findings import Finding
from traceanalyzer.health import compiled_ops, trace_health
from traceanalyzer.model import Health
from traceanalyzer.model.blocks import PageKind, Text
from traceanalyzer.model.changes import Change
from traceanalyzer.model.figures import StepPart
from traceanalyzer.placement.on_a_gpu import Failure, failure
from traceanalyzer.profiler_messages import ProfilerMessage, gpu_work_lost
from traceanalyzer.report.text import fill, time, word
from traceanalyzer.run import Run
from traceanalyzer.step_parts import DeviceSteps, MeanStep, step_parts
from traceanalyzer.tables.compiled_ops import CPU_DEVICE
from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.units import PS_PER_US

_COSTS_TIME: Final = 0.01  # of a step that waits for CPU ops
_LARGE: Final = 0.1  # of a step: a smaller part is not the bottleneck
_EXPLAINED: Final = 0.95  # of CPU-op time, for a page that says that nothing is to change
_NO_GPU: Final = "no_gpu_visible"
_IN_HOST_MEMORY: Final = "host_memory_kernel"


class OpCounts(NamedTuple):
    """Predicted numbers of ops on the GPU and on the CPU of a machine with a GPU."""

    on_gpu: int = 0
    on_cpu: int = 0  # in each step, or unknown how often
    on_cpu_once: int = 0
    unknown: int = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class PageFacts:
    """A diagnosed run, its changes, and the facts that the page shows."""

    diagnosis: Diagnosis
    changes: tuple[Change, ...] = ()
    failed_parts: dict[str, str] = field(default_factory=dict)  #: of the report, with the errors

    @property
    def run(self) -> Run:
        """The diagnosed run."""
        return self.diagnosis.run

    @cached_property
    def kind(self) -> PageKind:
        """The kind of page; see `Page.kind`."""
        there = self.diagnosis.on_a_gpu
        computing = int((self.run.ops["role"] == Role.COMPUTE).sum())
        if self.run.ops.empty or 0 < computing == self.compiled:
            return "E"
        if self.run.gpu_used:
            costs_time = bool(
                set(self.on_cpu["op_id"]) - self.by_design - rare_ops(self.run).keys()
            )
            if self.wait_share is not None:
                costs_time = self.wait_share >= _COSTS_TIME
            elif self.has_steps or not costs_time:
                least = _COSTS_TIME if self.has_steps else _LARGE
                costs_time = self.step.part_share("cpu_op") >= least
            return "A" if costs_time and not self.on_cpu.empty else "B"
        if self.on_cpu.empty or self.other_device:
            return "E"
        return "D" if there is not None and there.analysis.replayed else "C"

    @cached_property
    def compiled(self) -> int:
        """The number of ops that ran in a JAX program or on a TPU."""
        return compiled_ops(self.run)

    @cached_property
    def compiled_on_cpu(self) -> bool:
        """Whether compiled ops ran on the CPU."""
        ops = self.run.ops
        is_there = ops["device"].astype(str).str.endswith(CPU_DEVICE)
        return bool((is_there & (ops["placement"].astype(str) == "xla")).any())

    @cached_property
    def jax_version(self) -> str | None:
        """The version of JAX, "" if it is unknown, or None if the program did not use JAX."""
        versions = [host.tables.facts.jax_version for host in self.run.hosts]
        return max((v for v in versions if v is not None), default=None)

    @cached_property
    def other_device(self) -> str:
        """The kind of accelerator that was used instead of a GPU, or ""."""
        facts = [host.tables.facts for host in self.run.hosts]
        if any(f.pluggable_used for f in facts):
            return "pluggable device"
        return "TPU" if any("TPU" in name for f in facts for name in f.accelerators) else ""

    @cached_property
    def used(self) -> tuple[str, ...]:
        """The kind of each device that ran kernels, such as GPU."""
        names = [device.device or "" for device in self.devices]
        kinds = [name.rpartition("/device:")[2].partition(":")[0] for name in names]
        return tuple(filter(None, kinds))

    @cached_property
    def failure(self) -> Failure | None:
        """The error that ended the program, or None."""
        return next(filter(None, (failure(captured) for _, captured in self.run.captured)), None)

    @cached_property
    def was_killed(self) -> bool:
        """Whether the program was killed or crashed: what is recorded at its end is missing."""
        return any(not captured.complete for _, captured in self.run.captured)

    @cached_property
    def health(self) -> tuple[Health, ...]:
        """The limits of the trace and the report, known once all other sections are made."""
        failed = {**self.diagnosis.failed_parts, **self.failed_parts}
        return trace_health(self.run, self.diagnosis.outcomes, failed)

    @property
    def gpu_work_lost(self) -> ProfilerMessage | None:
        """The profiler's message that says why it did not record a GPU's work, or None."""
        return gpu_work_lost(self.run)

    # --- the step --------------------------------------------------------------------------

    @cached_property
    def devices(self) -> tuple[DeviceSteps, ...]:
        """The time that each device spent on each part of its steps."""
        return step_parts(self.run)

    @cached_property
    def step(self) -> MeanStep:
        """The mean step, from which the bar and all sentences about time take their figures."""
        return MeanStep(self.devices)

    @property
    def has_steps(self) -> bool:
        """Whether times are per step. If not, they cover the whole recording."""
        return self.step.has_steps

    @cached_property
    def has_gpu_times(self) -> bool:
        """Whether the trace shows when a device ran kernels."""
        return any(device.device is not None for device in self.devices)

    def part_name(self, kind: StepPart) -> str:
        """Return the name of a part of a step. Without kernels, the GPU may have been working."""
        is_open = kind == "runtime" and self.run.gpu_used and not self.has_gpu_times
        return word("part", "runtime_or_gpu" if is_open else kind)

    @cached_property
    def steps(self) -> int:
        """The number of regular steps of one device, or 0 if steps are unknown."""
        return self.step.steps

    @cached_property
    def step_us(self) -> float | None:
        """The mean duration of a regular step over all devices, or None if nothing was recorded."""
        return self.step.us

    def part_us(self, kind: StepPart) -> float:
        """Return the mean time of a part of a step, over all devices."""
        return self.step.part_us(kind)

    # --- waiting for CPU ops -----------------------------------------------------------------

    def wait_of(self, device: DeviceSteps) -> float:
        """Return the time per step that a device waited for CPU ops, or 0 if unknown."""
        waits = device.waits_us
        return 0.0 if waits is None else float(waits.reindex(self.on_cpu["op_id"]).sum())

    @cached_property
    def wait_us(self) -> float | None:
        """The mean time per step that a device waited for CPU ops, or None if unknown."""
        waits = [self.wait_of(device) for device in self.devices]
        return _mean(waits) if self.has_gpu_times else None

    @cached_property
    def wait_share(self) -> float | None:
        """The share of a step in which a device waited for CPU ops, or None if unknown."""
        if self.wait_us is None or not self.step_us:
            return None
        return min(1.0, self.wait_us / self.step_us)

    @property
    def waits_unexplained(self) -> bool:
        """Whether it is unknown what a device waited for in much of its time.

        The wait for CPU ops is then only a lower bound.
        """
        return self.has_gpu_times and self.step.part_share("unknown") >= _LARGE

    @cached_property
    def op_waits_us(self) -> dict[str, float]:
        """The mean time per step that a device waited for each CPU op, by op id."""
        waits = [device.waits_us for device in self.devices if device.waits_us is not None]
        total = pd.concat([pd.Series(dtype=float), *waits]).groupby(level=0).sum()
        mean = total.reindex(self.on_cpu["op_id"]).fillna(0.0) / max(1, len(waits))
        return {str(op_id): us for op_id, us in mean.items()}

    def has_times(self, op_ids: Collection[str]) -> bool:
        """Return whether any of these ops left an event."""
        rows = self.run.ops[self.run.ops["op_id"].isin(op_ids)]
        return bool(rows["no_event"].isna().any())

    def host_time(self, op_ids: Collection[str]) -> Text:
        """Return how long ops took on host threads: per step, or in total if they do not recur."""
        rows = self.run.ops[self.run.ops["op_id"].isin(op_ids)]
        if not self.has_times(op_ids):
            return ("time unknown",)
        per, took_ps = "per step", self.diagnosis.costs.host_ps(op_ids)
        if not took_ps:
            per, took_ps = "in total", int(rows["host_self_ps"].sum())
        return fill("{} of host time " + per, time(took_ps / PS_PER_US))

    def step_time(self, op_ids: Collection[str]) -> Text:
        """Return how much of the bar ops take, or their host time if they are not part of it."""
        us = 0.0 if self.has_gpu_times or not self.has_steps else self.step.ops_us(op_ids)
        return fill("{} of host time per step", time(us)) if us else self.host_time(op_ids)

    # --- what may be said about placement ------------------------------------------------------

    @cached_property
    def ops_share(self) -> float:
        """The share of the bar that CPU ops take, or ops of unknown placement."""
        return self.step.part_share("cpu_op", "unplaced")

    @property
    def ops_us(self) -> float:
        """The time per step of these ops."""
        return self.step.part_us("cpu_op", "unplaced")

    def recur(self, op_ids: Collection[str]) -> bool:
        """Return whether any of these ops runs in each step, or it is unknown which ones do."""
        return not self.has_steps or bool(set(op_ids) - rare_ops(self.run).keys())

    @property
    def hardly_matters(self) -> bool:
        """Whether ops take so little of each step that no other placement helps much.

        The program's thread does not show that it waits for ops of other tasks.
        """
        computes = (self.run.ops["role"] == Role.COMPUTE) & ~self.run.ops["in_input_pipeline"]
        took_ps = self.diagnosis.costs.host_ps(self.run.ops["op_id"][computes]) or 0.0
        is_little = took_ps / PS_PER_US < _LARGE * (self.step_us or 0.0) or self.ops_share > 0
        return self.has_steps and self.ops_share < _LARGE and is_little

    @cached_property
    def is_explained(self) -> bool:
        """Whether it is known why nearly all CPU-op time is there, or where it would be."""
        ops = self.run.ops[self.run.ops["role"] == Role.COMPUTE]
        ops = ops[ops["placement"].isin(["cpu", "unknown"])]
        is_open = [self._is_open(op_id) for op_id in ops["op_id"].astype(str)]
        took_ps = ops["host_self_ps"].astype(float)
        total_ps = float(took_ps.sum())
        # Without times, all ops count the same.
        share = took_ps[is_open].sum() / total_ps if total_ps else sum(is_open) / max(1, len(ops))
        return bool(share <= 1 - _EXPLAINED)

    def _is_open(self, op_id: str) -> bool:
        there = self.diagnosis.on_a_gpu
        if there is None:
            return self.diagnosis.explained.get(op_id) not in {"certain", "likely"}
        is_unknown = self.diagnosis.placement_on_a_gpu(op_id) == "unknown"
        return op_id in there.unexplained or (is_unknown and op_id not in there.analysis.replaced)

    @property
    def is_placed_well(self) -> bool:
        """Whether the page may say that placement needs no change."""
        is_cheap = not self.has_steps or self.ops_share < _LARGE
        is_known = not self.crossing and not self.was_killed
        return self.is_explained and is_cheap and is_known

    @cached_property
    def first_change(self) -> Change | None:
        """The change to make next; None if all free next to nothing.

        A GPU is not the answer if ops take little time, unless the program needs one.
        """
        if self.failure is not None and self.failure.missing:
            return next(iter(self.changes), None)
        return next(filter(self._matters, self.changes), None)

    def _matters(self, change: Change) -> bool:
        saving, least = change.saving, _LARGE if change.kind == "gpu" else _COSTS_TIME
        if self.has_steps and saving.per != "step":
            return True
        share = saving.share if self.has_steps else None
        share = self._share_of_ops(change) if share is None else share
        if share is None:
            return change.kind != "gpu" or not self.hardly_matters
        return share >= least

    def _share_of_ops(self, change: Change) -> float | None:
        """Return the time of a change's ops, and the wait for them, as a share of the bar.

        None if it is unknown, as it is on the machine of a prediction.
        """
        op_ids = change.op_ids
        is_known = self.has_times(op_ids) and self.recur(op_ids) and not change.is_prediction
        if not is_known or not self.step_us:
            return None
        took_ps = self.diagnosis.costs.host_ps(op_ids) if self.has_steps else None
        if took_ps is None:
            took_ps = self.run.ops["host_self_ps"][self.run.ops["op_id"].isin(op_ids)].sum()
        wait_us = sum(self.op_waits_us.get(op_id, 0.0) for op_id in op_ids)
        return (float(took_ps) / PS_PER_US + wait_us) / self.step_us

    # --- ops and findings --------------------------------------------------------------------

    @cached_property
    def on_cpu(self) -> pd.DataFrame:
        """The ops that ran on the CPU, except those of the input pipeline."""
        return cpu_ops(self.run)

    @cached_property
    def findings(self) -> dict[str, Finding]:
        """All findings by id, including predicted ones."""
        there = self.diagnosis.on_a_gpu
        predicted = () if there is None else there.findings
        return {finding.id: finding for finding in (*predicted, *self.diagnosis.findings)}

    @cached_property
    def by_design(self) -> frozenset[str]:
        """Ids of the ops that are on the CPU by design."""
        return _ops_of([f for f in self.findings.values() if f.harm == "by_design"])

    @cached_property
    def changes_of_op(self) -> dict[str, list[Change]]:
        """The changes that affect each op, by op id."""
        found: dict[str, list[Change]] = defaultdict(list)
        for change in self.changes:
            for op_id in change.op_ids:
                found[op_id].append(change)
        return found

    # --- without a GPU -----------------------------------------------------------------------

    @cached_property
    def why_no_gpu(self) -> Finding | None:
        """The finding that proves why TensorFlow had no GPU, or None."""
        certain = (f for f in self.diagnosis.findings if f.certainty == "certain")
        return next((f for f in certain if f.cause == _NO_GPU), None)

    @cached_property
    def stay_on_cpu(self) -> frozenset[str]:
        """Ids of the ops that the CPU of a machine with a GPU would compute."""
        return self.diagnosis.stay_on_cpu

    @property
    def computed_on_host(self) -> int:
        """The number of ops that a GPU machine places on its GPU but computes on the host."""
        there = self.diagnosis.on_a_gpu
        if there is None:
            return 0
        found = there.analysis
        return len(found.on_host.keys() - self.stay_on_cpu - found.unsure.keys())

    @cached_property
    def crossing(self) -> tuple[Finding, ...]:
        """The findings about ops on the GPU whose values go to the host and back."""
        found = (f for f in self.findings.values() if f.cause == _IN_HOST_MEMORY)
        return tuple(finding for finding in found if finding.harm == "harmful")

    @property
    def stay_for_certain(self) -> bool:
        """Whether each op that would stay on the CPU has a certain cause."""
        certain = [f for f in self.findings.values() if f.certainty == "certain"]
        why = [f for f in certain if f.cause != _NO_GPU]
        explained = _ops_of(why) | {op for f in why for op in f.dragged_along}
        return self.stay_on_cpu <= explained

    @cached_property
    def with_a_gpu(self) -> OpCounts:
        """The number of ops predicted for each device of a machine with a GPU."""
        there = self.diagnosis.on_a_gpu
        if there is None:
            return OpCounts()
        found, on_cpu = there.analysis, self.stay_on_cpu
        rare = rare_ops(self.run)
        once = sum(rare.get(op_id, NOT_RECORDED) != NOT_RECORDED for op_id in on_cpu)
        unknown = len(found.unsure.keys() - on_cpu) + len(found.not_replayed - on_cpu)
        total = found.replayed - len(found.replaced) + len(found.not_replayed)
        return OpCounts(total - len(on_cpu) - unknown, len(on_cpu) - once, once, unknown)


def _ops_of(findings: Sequence[Finding]) -> frozenset[str]:
    return frozenset(op_id for finding in findings for op_id in finding.op_ids)


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
