"""The cost of ops in the report, and what moving them can gain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.model import Cost, Gain
from traceanalyzer.report.records import us
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from traceanalyzer.costs import Costs


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
    return Cost(
        host_us=int(rows["host_self_ps"].sum()) / PS_PER_US,
        copy_us=us(copy_ps),
        copy_bytes=copy_bytes,
        exposed_us_per_step=None if costs is None else us(costs.exposed_ps(ids)),
        host_us_per_step=None if costs is None else us(costs.host_ps(ids)),
    )


def gain(op_ids: Sequence[str], costs: Costs) -> Gain | None:
    """Return what moving ops to the device can gain; None if unknown."""
    bounds = costs.gain(op_ids)
    if bounds is None:
        return None
    return Gain(low=us(bounds.low_ps), high=us(bounds.high_ps), basis="exposed")


def copies_of_unknown_size(copies: pd.DataFrame) -> frozenset[str]:
    """Return the ops that copy something of unknown size to a device or from one."""
    unknown = copies[copies["direction"].isin(["h2d", "d2h"]) & copies["bytes"].isna()]
    return frozenset(unknown["producer"].dropna()) | frozenset(unknown["consumer"].dropna())


def _known_sum(column: pd.Series[int]) -> int | None:
    """Sum the known values; None if none are known (which is not 0)."""
    known = column.dropna()
    return None if known.empty and len(column) else int(known.sum())
