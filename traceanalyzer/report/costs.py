"""The cost of ops in the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.format import duration_text, listed
from traceanalyzer.model import Cost, Gain
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import pandas as pd

    from traceanalyzer.costs import Costs, GainBounds


def joint_cost(rows: pd.DataFrame, copies: pd.DataFrame, costs: Costs | None) -> Cost:
    """Return the cost of several ops; a copy between two of them counts once."""
    touched = copies[
        copies["producer"].isin(rows["op_id"]) | copies["consumer"].isin(rows["op_id"])
    ]
    across = touched.loc[touched["direction"].isin(["h2d", "d2h"]), "bytes"]
    copy_ps = _known_sum(touched["duration_ps"])
    return Cost(
        host_us=int(rows["host_self_ps"].sum()) / PS_PER_US,
        copy_us=None if copy_ps is None else copy_ps / PS_PER_US,
        copy_bytes=_known_sum(across),
        exposed_us_per_step=_exposed_us(rows["op_id"], costs),
        host_us_per_step=_host_us(rows["op_id"], costs),
    )


def op_cost(row: pd.DataFrame, unmeasured: Collection[str], costs: Costs | None) -> Cost:
    """Return the cost of one op."""
    size = int(row["h2d_bytes"].sum() + row["d2h_bytes"].sum())
    copy_ps = int(row["copy_ps"].sum())
    is_unknown = row["op_id"].iloc[0] in unmeasured
    return Cost(
        host_us=int(row["host_self_ps"].sum()) / PS_PER_US,
        copy_us=None if is_unknown and not copy_ps else copy_ps / PS_PER_US,
        copy_bytes=None if is_unknown and not size else size,
        exposed_us_per_step=_exposed_us(row["op_id"], costs),
        host_us_per_step=_host_us(row["op_id"], costs),
    )


def gain(op_ids: Sequence[str], costs: Costs) -> Gain | None:
    """Return what moving ops to the device can gain; None if unknown."""
    bounds = costs.gain(op_ids)
    if bounds is None:
        return None
    return Gain(
        low=bounds.low_ps / PS_PER_US,
        high=bounds.high_ps / PS_PER_US,
        basis="exposed",
        note=_note(bounds),
    )


def path_us(op_ids: Sequence[str], costs: Costs) -> float | None:
    """Return the critical-path time spent in the given ops, per step; None without steps."""
    found = costs.path_ps(op_ids)
    return None if found is None else found / PS_PER_US


def copies_of_unknown_size(copies: pd.DataFrame) -> frozenset[str]:
    """Return the ops that copy something of unknown size to a device or from one."""
    unknown = copies[copies["direction"].isin(["h2d", "d2h"]) & copies["bytes"].isna()]
    return frozenset(unknown["producer"].dropna()) | frozenset(unknown["consumer"].dropna())


def _note(bounds: GainBounds) -> str | None:
    """Say which GPU wait the lower bound leaves out."""
    reasons = [
        (bounds.others_ps, "in which not every GPU waited"),
        (bounds.copied_ps, "of copies that may only move elsewhere"),
        (bounds.shared_ps, "in which other host ops also ran"),
        (bounds.unproved_ps, "whose attribution the trace does not prove"),
        (bounds.own_ps, "that the ops may cost on the device"),
        (bounds.beside_ps, "that the input pipeline or another device takes anyway"),
    ]
    parts = [f"{duration_text(ps)} {why}" for ps, why in reasons if ps >= PS_PER_US]
    return f"the lower bound leaves out {listed(parts)}" if parts and bounds.high_ps else None


def _exposed_us(op_ids: pd.Series[str], costs: Costs | None) -> float | None:
    exposed = None if costs is None else costs.exposed_ps(op_ids)
    return None if exposed is None else exposed / PS_PER_US


def _host_us(op_ids: pd.Series[str], costs: Costs | None) -> float | None:
    took = None if costs is None else costs.host_ps(op_ids)
    return None if took is None else took / PS_PER_US


def _known_sum(column: pd.Series[int]) -> int | None:
    """Sum the known values; None if none are known (which is not 0)."""
    known = column.dropna()
    return None if known.empty and len(column) else int(known.sum())
