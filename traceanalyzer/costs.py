"""The cost of CPU ops: how long devices waited for them, and how much time a fix can save.

A fix saves at most the time in which any device of the host was idle because of the ops.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traceanalyzer.model import Cost
from traceanalyzer.native.events import sum_by
from traceanalyzer.run import Host, Run
from traceanalyzer.tables.steps import regular_steps
from traceanalyzer.timeline.intervals import common, covered, inside_ps, union
from traceanalyzer.units import PS_PER_US, us


class Costs:
    """The costs of a run's ops per regular step."""

    def __init__(self, run: Run) -> None:
        steps = [(host, regular_steps(host.tables.steps)) for host in run.hosts]
        self._hosts = [_HostWaits(host, of_host) for host, of_host in steps if len(of_host)]
        self._with_devices = [each for each in self._hosts if each.devices]

    @cached_property
    def host_by_op_ps(self) -> pd.Series[float] | None:
        """The time per step of each op on host threads, by op id; None if there are no steps."""
        found = []
        for each in self._hosts:
            threads = each.host.tables.threads
            if threads is not None:
                known = threads.row >= 0
                start, end = threads.start_ps[known], threads.end_ps[known]
                found.append(each.by_op_ps(threads.row[known], start, end))
        return pd.concat(found) if found else None

    @cached_property
    def exposed_by_op_ps(self) -> pd.Series[float] | None:
        """Each op's mean exposed time per step over all devices, by op id; None without devices."""
        found = [
            each.by_op_ps(*(waits[name].to_numpy() for name in ("row", "start_ps", "end_ps")))
            for each in self._with_devices
            for waits in each.devices
        ]
        return pd.concat(found).groupby(level=0).sum() / len(found) if found else None

    def host_ps(self, op_ids: Iterable[str]) -> float | None:
        """Return the time of ops on host threads per step, summed over all hosts."""
        return _total(self.host_by_op_ps, op_ids)

    def exposed_ps(self, op_ids: Iterable[str]) -> float | None:
        """Return the time per step that devices waited for ops, averaged over devices."""
        return _total(self.exposed_by_op_ps, op_ids)

    def step_ps(self) -> float | None:
        """Return the mean duration of the steps in which `exposed_ps` was measured."""
        took = [e.within.total_ps / e.steps for e in self._with_devices for _ in e.devices]
        return sum(took) / len(took) if took else None

    def gain_ps(self, op_ids: Iterable[str]) -> float | None:
        """Return the most time per step that moving ops to the device can save.

        Hosts run their steps together, so the host with the largest gain decides. None without
        devices or steps.
        """
        ids = set(op_ids)
        return max((each.waited_ps(ids) for each in self._with_devices), default=None)


def _total(of_op: pd.Series[float] | None, op_ids: Iterable[str]) -> float | None:
    return None if of_op is None else float(of_op.reindex(list(op_ids)).sum())


class _HostWaits:
    """The regular steps of a host, and the exposed times of its devices."""

    def __init__(self, host: Host, steps: pd.DataFrame) -> None:
        self.host, self.steps, self.within = host, len(steps), covered(steps)
        self.devices = [
            pd.DataFrame({"row": p.row, "start_ps": p.start_ps, "end_ps": p.end_ps})[p.is_exposed]
            for p in (device.parts for device in host.timeline.devices)
        ]

    def by_op_ps(
        self, rows: NDArray[np.int32], start_ps: NDArray[np.int64], end_ps: NDArray[np.int64]
    ) -> pd.Series[float]:
        """Sum the times of ops per step, by op id; `rows` are their rows in the op table."""
        ids, inside = self.host.tables.ops["op_id"], inside_ps(self.within, start_ps, end_ps)
        return pd.Series(sum_by(rows.astype(np.int64), inside, len(ids)), ids) / self.steps

    def waited_ps(self, op_ids: Iterable[str]) -> float:
        """Return the time per step in which any of the host's devices waited for ops."""
        rows = np.flatnonzero(self.host.tables.ops["op_id"].isin(op_ids))
        waits = pd.concat([device[device["row"].isin(rows)] for device in self.devices])
        start, end = (waits[name].to_numpy(np.int64) for name in ("start_ps", "end_ps"))
        return common(union(start, end - start), self.within).total_ps / self.steps


# --- as a record -----------------------------------------------------------------------------


def joint_cost(rows: pd.DataFrame, copies: pd.DataFrame, costs: Costs) -> Cost:
    """Return the cost of several ops; a copy between two of them counts once."""
    ids = rows["op_id"]
    touched = copies[copies["producer"].isin(ids) | copies["consumer"].isin(ids)]
    across = touched.loc[touched["direction"].isin(["h2d", "d2h"]), "bytes"]
    return _cost(rows, _known_sum(touched["duration_ps"]), _known_sum(across), costs)


def op_costs(rows: pd.DataFrame, copies: pd.DataFrame, costs: Costs | None) -> list[Cost]:
    """Return the cost of each op."""
    unmeasured = copies_of_unknown_size(copies)
    found = []
    for k, op_id in enumerate(rows["op_id"]):
        row = rows.iloc[k : k + 1]
        known = (int(row["copy_ps"].sum()), int((row["h2d_bytes"] + row["d2h_bytes"]).sum()))
        copy_ps, size = (value or (None if op_id in unmeasured else 0) for value in known)
        found.append(_cost(row, copy_ps, size, costs))
    return found


def _cost(
    rows: pd.DataFrame, copy_ps: int | None, copy_bytes: int | None, costs: Costs | None
) -> Cost:
    ids = rows["op_id"]
    waited_ps = None if costs is None else costs.exposed_ps(ids)
    is_timed = rows.empty or bool(rows["no_event"].isna().any())
    return Cost(
        host_us=int(rows["host_self_ps"].sum()) / PS_PER_US if is_timed else None,
        copy_us=us(copy_ps),
        copy_bytes=copy_bytes,
        exposed_us_per_step=us(waited_ps if is_timed else waited_ps or None),
        host_us_per_step=us(costs.host_ps(ids)) if costs is not None and is_timed else None,
    )


def copies_of_unknown_size(copies: pd.DataFrame) -> frozenset[str]:
    """Return the ops with a host-device transfer of unknown size."""
    unknown = copies[copies["direction"].isin(["h2d", "d2h"]) & copies["bytes"].isna()]
    return frozenset(unknown["producer"].dropna()) | frozenset(unknown["consumer"].dropna())


def _known_sum(column: pd.Series[int]) -> int | None:
    """Sum the known values; None if none are known (which is not 0)."""
    known = column.dropna()
    return None if known.empty and len(column) else int(known.sum())
