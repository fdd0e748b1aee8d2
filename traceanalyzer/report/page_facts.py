"""Figures of a run that several sections share, so that all sections show the same ones."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pandas as pd

from traceanalyzer.diagnosis import cpu_ops, rare_ops
from traceanalyzer.native.events import sum_by
from traceanalyzer.placement.on_a_gpu import failure
from traceanalyzer.report.steps import step_parts
from traceanalyzer.tables.steps import regular_steps
from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.timeline.intervals import inside_ps, union
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.findings import Finding
    from traceanalyzer.model.blocks import PageKind
    from traceanalyzer.model.changes import Change
    from traceanalyzer.placement.on_a_gpu import Failure
    from traceanalyzer.report.steps import DeviceSteps
    from traceanalyzer.run import Host, Run

_COSTS_TIME: Final = 0.01  # of a step that waits for CPU ops


class OpCounts(NamedTuple):
    """Where ops would be on a machine with a GPU."""

    on_gpu: int = 0
    on_cpu: int = 0  # in each step, or unknown how often
    on_cpu_once: int = 0
    unknown: int = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class PageFacts:
    """A diagnosed run, what to change in it, and the figures that the page shows."""

    diagnosis: Diagnosis
    changes: tuple[Change, ...] = ()

    @property
    def run(self) -> Run:
        """The run."""
        return self.diagnosis.run

    @cached_property
    def kind(self) -> PageKind:
        """The kind of page; see `Page.kind`."""
        run, there = self.run, self.diagnosis.on_a_gpu
        computing = run.ops["placement"][run.ops["role"] == Role.COMPUTE].astype(str)
        # Ops of a JAX program, or on a TPU.
        is_compiled = len(computing) > 0 and computing.str.startswith(("xla", "tpu")).all()
        if run.ops.empty or is_compiled:
            return "E"
        if run.gpu_used:
            costs_time = bool(set(self.on_cpu["op_id"]) - self.by_design - self.rare)
            if self.wait_share is not None:
                costs_time = self.wait_share >= _COSTS_TIME
            return "A" if costs_time else "B"
        if self.on_cpu.empty or self.other_device:
            return "E"
        return "D" if there is not None and there.analysis.replayed else "C"

    @cached_property
    def other_device(self) -> str:
        """The kind of accelerator if one other than a GPU was used; otherwise ""."""
        facts = [host.tables.facts for host in self.run.hosts]
        if any(f.pluggable_used for f in facts):
            return "pluggable device"
        return "TPU" if any("TPU" in name for f in facts for name in f.accelerators) else ""

    @cached_property
    def failure(self) -> Failure | None:
        """The error that ended the program, if one did."""
        captured = (h.capture_file for h in self.run.hosts if h.capture_file is not None)
        return next((found for c in captured if (found := failure(c)) is not None), None)

    # --- the step --------------------------------------------------------------------------

    @cached_property
    def devices(self) -> tuple[DeviceSteps, ...]:
        """How each device spent a step."""
        return step_parts(self.run)

    @cached_property
    def has_steps(self) -> bool:
        """Whether figures are per step; otherwise they cover the whole recording."""
        return any(device.has_steps for device in self.devices)

    @cached_property
    def has_gpu_times(self) -> bool:
        """Whether the trace shows when a device computed."""
        return any(device.device is not None for device in self.devices)

    @cached_property
    def steps(self) -> int:
        """The number of regular steps on one device; 0 if steps are unknown."""
        return int(self.devices[0].regular.sum()) if self.has_steps else 0

    @cached_property
    def step_us(self) -> float | None:
        """The mean duration of a regular step over all devices; None if nothing was recorded."""
        return _mean([device.step_us for device in self.devices])

    def part_us(self, *kinds: str) -> float:
        """Return the total time of some parts of a step, averaged over all devices."""
        parts = [[p.value for p in d.parts() if p.kind in kinds] for d in self.devices]
        return _mean([sum(values) for values in parts]) or 0.0

    # --- waiting for CPU ops -----------------------------------------------------------------

    @cached_property
    def waits_us(self) -> dict[tuple[str, str], pd.Series[float]]:
        """How long each device waited for each CPU op per step, by host and device."""
        ids = self.on_cpu["op_id"]
        return {
            (host.name, device): us.reindex(ids).dropna()
            for host in self.run.hosts
            for device, us in _waits_us(host)
        }

    def wait_of(self, device: DeviceSteps) -> float:
        """Return how long a device waited for CPU ops per step; 0 if that is unknown."""
        waits = self.waits_us.get((device.host, device.device or ""))
        return 0.0 if waits is None else float(waits.sum())

    @cached_property
    def wait_us(self) -> float | None:
        """How long a device waited for CPU ops per step, on average; None if unknown."""
        return _mean([float(waits.sum()) for waits in self.waits_us.values()])

    @cached_property
    def wait_share(self) -> float | None:
        """The part of a step in which a device waited for CPU ops; None if that is unknown."""
        if self.wait_us is None or not self.step_us:
            return None
        return min(1.0, self.wait_us / self.step_us)

    @cached_property
    def op_waits_us(self) -> dict[str, float]:
        """How long a device waited for each CPU op per step, averaged over all devices."""
        none = pd.Series(0.0, index=self.on_cpu["op_id"])
        total = pd.concat([none, *self.waits_us.values()]).groupby(level=0).sum()
        return {str(op_id): us / max(1, len(self.waits_us)) for op_id, us in total.items()}

    # --- ops and findings --------------------------------------------------------------------

    @cached_property
    def on_cpu(self) -> pd.DataFrame:
        """The ops that ran on the CPU, except those of the input pipeline."""
        return cpu_ops(self.run)

    @cached_property
    def rare(self) -> frozenset[str]:
        """Ids of the ops that are not part of each step."""
        return frozenset(rare_ops(self.run))

    @cached_property
    def findings(self) -> dict[str, Finding]:
        """All findings by id, including those of the prediction."""
        there = self.diagnosis.on_a_gpu
        predicted = () if there is None else there.findings
        return {finding.id: finding for finding in (*predicted, *self.diagnosis.findings)}

    @cached_property
    def by_design(self) -> frozenset[str]:
        """Ids of the ops that are on the CPU by design."""
        found = [f.op_ids for f in self.findings.values() if f.harm == "by_design"]
        return frozenset(op_id for op_ids in found for op_id in op_ids)

    @cached_property
    def changes_of_op(self) -> dict[str, list[Change]]:
        """The changes of each op, by op id."""
        found: dict[str, list[Change]] = defaultdict(list)
        for change in self.changes:
            for op_id in change.op_ids:
                found[op_id].append(change)
        return found

    @cached_property
    def with_a_gpu(self) -> OpCounts:
        """Where the ops would be on a machine with a GPU, as predicted."""
        there = self.diagnosis.on_a_gpu
        if there is None:
            return OpCounts()
        found, on_cpu = there.analysis, there.analysis.cpu_ops.keys()
        once = len(on_cpu & self.rare)
        unknown = len(found.unsure.keys() - on_cpu) + len(found.not_replayed - on_cpu)
        total = found.replayed - len(found.replaced) + len(found.not_replayed)
        return OpCounts(total - len(on_cpu) - unknown, len(on_cpu) - once, once, unknown)


def _waits_us(host: Host) -> Iterator[tuple[str, pd.Series[float]]]:
    """Yield each device of a host, and how long it waited for each op per step."""
    ops, steps = host.tables.ops, regular_steps(host.tables.steps)
    within = union(steps["start_ps"].to_numpy(np.int64), steps["duration_ps"].to_numpy(np.int64))
    for device in host.timeline.devices:
        parts = device.parts
        waits = parts.is_exposed
        start_ps, end_ps = parts.start_ps[waits], parts.end_ps[waits]
        took = inside_ps(within, start_ps, end_ps) if len(steps) else end_ps - start_ps
        of_row = sum_by(parts.row[waits].astype(np.int64), took, len(ops))
        per_step = of_row / max(1, len(steps)) / PS_PER_US
        yield device.device, pd.Series(per_step, index=ops["op_id"].to_numpy())


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
