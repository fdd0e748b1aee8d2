"""The tables of the report: cut or aggregated for reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from traceanalyzer.model import Table
from traceanalyzer.native.events import sum_by
from traceanalyzer.report.convert import in_us, table
from traceanalyzer.source_files import shown_files
from traceanalyzer.tables.vocabulary import Role

if TYPE_CHECKING:
    from traceanalyzer.run import Run

_MAX_ROWS: Final = 500


def op_table(run: Run) -> Table:
    """Return the most expensive ops on the CPU, by host time, and of the others, by any time."""
    ops = run.ops
    time = ops["host_self_ps"] + ops["kernel_ps"]
    ranked = ops.loc[time.sort_values(ascending=False, kind="stable").index]
    on_cpu = (ranked["placement"] == "cpu") & (ranked["role"] == Role.COMPUTE)
    chosen = pd.concat([ranked[on_cpu].head(_MAX_ROWS), ranked[~on_cpu].head(_MAX_ROWS)])
    files = pd.Series(shown_files(chosen["source_file"], run), index=chosen.index, dtype=object)
    return table(in_us(chosen.assign(source_file=files)), total_rows=len(ops))


def copy_table(run: Run) -> Table:
    """Aggregate the copy table by direction, memory and ends."""
    copies = run.transfers
    keys = ["direction", "memory", "producer_name", "consumer_name", "device"]
    texts = copies[keys].astype(object)
    rows = texts.where(texts.notna(), None).assign(
        bytes=copies["bytes"], copy_ps=copies["duration_ps"], count=1
    )
    if rows.empty:
        return Table(columns=(*keys, "count", "bytes", "copy_us"), rows=(), total_rows=0)
    sums = rows.groupby(keys, dropna=False, sort=True).sum(min_count=1).reset_index()
    sums = sums[[*keys, "count", "bytes", "copy_ps"]]
    order = (
        sums[["bytes", "count"]]
        .fillna(0)
        .sort_values(["bytes", "count"], ascending=False, kind="stable")
    )
    return table(in_us(sums.loc[order.index]), _MAX_ROWS)


def kernel_table(kernels: pd.DataFrame) -> Table:
    """Aggregate the kernel table by kernel, op and device."""
    keys = ["name", "op_id", "op", "device"]
    if kernels.empty:  # an empty group has lost its dtypes
        return Table(columns=(*keys, "count", "duration_us"), rows=(), total_rows=0)
    codes = [kernels[key].cat.codes.to_numpy(np.int64) for key in keys]
    group = np.zeros(len(kernels), np.int64)
    for of_key in codes:  # two codes become one, which is again less than the number of rows
        group, _ = pd.factorize(group * (int(of_key.max()) + 2) + of_key + 1)
    took_ps = sum_by(group, kernels["duration_ps"].to_numpy(np.int64), int(group.max()) + 1)
    first = np.empty(len(took_ps), np.int64)
    first[group[::-1]] = np.arange(len(group))[::-1]
    order = np.lexsort((*(of_key[first] for of_key in reversed(codes)), -took_ps))[:_MAX_ROWS]
    sums: dict[str, object] = {}
    for key, of_key in zip(keys, codes, strict=True):
        categories = np.array([*kernels[key].cat.categories, None], dtype=object)
        sums[key] = categories[of_key[first[order]]]
    sums["count"] = np.bincount(group)[order]
    sums["duration_ps"] = took_ps[order]
    return table(in_us(pd.DataFrame(sums)), total_rows=len(took_ps))


def step_table(run: Run) -> Table:
    """Return the first steps."""
    return table(in_us(run.steps, min((h.start_ps for h in run.hosts), default=0)), _MAX_ROWS)
