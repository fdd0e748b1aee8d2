"""Memory from step to step: what each had in use, and whether that grows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from traceanalyzer.memory.records import HELD_BY
from traceanalyzer.tables.steps import main_steps

if TYPE_CHECKING:
    from traceanalyzer.memory.ledger import Ledger
    from traceanalyzer.memory.records import Records


_GROWING_STEPS: Final = 5  # rises by chance over fewer
_UNSTEADY: Final = ("warm_up", "partial")  # kinds of steps that say nothing about growth


@dataclass(frozen=True, eq=False, kw_only=True)
class Growth:
    """Steps at whose ends more and more memory is in use."""

    steps: int
    first_bytes: int  #: in use at the end of the first step
    last_bytes: int  #: in use at the end of the last step
    bytes_per_step: int  #: the median rise
    #: What grew, grouped as a peak's holders; `bytes` and `count` are the difference between the
    #: last step and the first.
    holders: pd.DataFrame


def step_spans(steps: pd.DataFrame) -> pd.DataFrame:
    """Return the main steps, one row each, in order.

    Several threads may mark the same step: that lasts from the first mark to the last.
    """
    if steps.empty:
        nothing = np.zeros(0, np.int64)
        columns = {"step": nothing, "start_ps": nothing, "end_ps": nothing}
        return pd.DataFrame(columns | {"is_steady": nothing.astype(np.bool_)})
    rows = main_steps(steps).sort_values("start_ps", kind="stable")
    start = rows["start_ps"].to_numpy(np.int64)
    number = rows["step"].to_numpy(np.int64)
    end = start + rows["duration_ps"].to_numpy(np.int64)
    kind = rows["kind"].astype(object)
    begin = np.flatnonzero(np.concatenate([[True], number[1:] != number[:-1]]))
    return pd.DataFrame(
        {
            "step": number[begin],
            "start_ps": start[begin],
            "end_ps": np.maximum.reduceat(end, begin),
            "is_steady": ~kind.isin(_UNSTEADY).to_numpy(np.bool_)[begin],
        }
    )


def by_step(book: Ledger, spans: pd.DataFrame) -> pd.DataFrame:
    """Return what was in use in each step, as the last record before or in it left it."""
    if not len(book) or spans.empty:
        return spans.iloc[:0].assign(peak_bytes=0, end_bytes=0)
    level = np.concatenate([[book.at_first], book.in_use, [0]])  # one more for `reduceat`
    first, last = (
        np.searchsorted(book.at_ps, spans[which].to_numpy(np.int64), side="right")
        for which in ("start_ps", "end_ps")
    )
    last = np.maximum(first, last)
    bounds = np.stack([first, last + 1], axis=1).ravel()
    return spans.assign(peak_bytes=np.maximum.reduceat(level, bounds)[::2], end_bytes=level[last])


def growth(records: Records, book: Ledger, steps: pd.DataFrame) -> Growth | None:
    """Return how what is in use grows, where it does so from each step to the next.

    Args:
        records: The host's records.
        book: The allocator's book.
        steps: What was in use by step; what is no steady step is left out here.
    """
    steps = steps[steps["is_steady"]]
    in_use = steps["end_bytes"].to_numpy(np.int64)
    rise = np.diff(in_use)
    if len(steps) < _GROWING_STEPS or not (rise > 0).all():
        return None
    ends = steps["end_ps"].to_numpy(np.int64)[[0, -1]]
    first, last = (np.searchsorted(book.at_ps, ends, side="right") - 1).tolist()
    return Growth(
        steps=len(steps),
        first_bytes=int(in_use[0]),
        last_bytes=int(in_use[-1]),
        bytes_per_step=int(np.median(rise)),
        holders=_grown(records, book, first, last),
    )


def _grown(records: Records, book: Ledger, first: int, last: int) -> pd.DataFrame:
    """Group the blocks live at `last`, less those live at `first`."""
    parts = []
    for index, other, sign in ((last, first, 1), (first, last, -1)):
        live = np.setdiff1d(book.live_at(index), book.live_at(other), assume_unique=True)
        groups = records.groups(book.row[live], book.size[live])
        parts.append(groups.assign(bytes=sign * groups["bytes"], count=sign * groups["count"]))
    groups = pd.concat(parts, ignore_index=True).astype({"bytes": np.int64, "count": np.int64})
    sums = groups.groupby(list(HELD_BY), dropna=False, sort=False).sum().reset_index()
    keys = sums[list(HELD_BY)].astype(object)
    sums[list(HELD_BY)] = keys.where(keys.notna(), None)
    grown = sums[sums["bytes"] > 0]
    return grown.sort_values("bytes", ascending=False, kind="stable", ignore_index=True)
