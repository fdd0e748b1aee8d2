"""Builds the "Ops" tab: one table of all ops."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import pandas as pd
from msgspec.structs import replace
from numpy.typing import NDArray

from traceanalyzer.causes import cause_title
from traceanalyzer.costs import copies_of_unknown_size
from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.format import counted
from traceanalyzer.model import PackedTable
from traceanalyzer.model import blocks as b
from traceanalyzer.report.packed import Numbers, Texts, pack
from traceanalyzer.report.page_facts import PageFacts
from traceanalyzer.report.records import places
from traceanalyzer.report.text import columns_of, cut, word
from traceanalyzer.tables.vocabulary import PYTHON_CALLBACKS, Role
from traceanalyzer.units import PS_PER_US

_MAX_ROWS: Final = 20_000
_MAX_BYTES: Final = 900_000  # of the packed table
_LONGEST: Final = 240  # characters of a text
_DIGITS: Final = re.compile(r"\d+")


def ops_tab(facts: PageFacts) -> b.Tab | None:
    """Return the "Ops" tab, or None if there are no ops."""
    run, costs = facts.run, facts.diagnosis.costs
    if run.ops.empty:
        return None
    frame = _frame(facts, ranked(run.ops).head(_MAX_ROWS)).dropna(axis=1, how="all")
    if len(run.hosts) == 1:
        frame = frame.drop(columns="host")
    packed = _packed(frame, len(run.ops))
    per_step = {
        "gpu_wait_us": costs.exposed_by_op_ps is not None,
        "host_us": costs.host_by_op_ps is not None,
    }
    columns = tuple(
        replace(column, title=f"{column.title}/step") if per_step.get(column.name) else column
        for column in columns_of("ops")
        if column.name in frame
    )
    blocks: list[b.Block] = [b.BigTable(id="ops-table", columns=columns, packed=packed)]
    if packed.rows < len(run.ops):
        left_out = counted(len(run.ops) - packed.rows, "op")
        text = f"Not on this page: the {left_out} with the least time. All ops: "
        command = b.Code(text="traceanalyzer tables PATH -o DIR")
        blocks.append(b.Note(text=(text, command)))
    return b.Tab(id="ops", title="Ops", blocks=tuple(blocks))


def ranked(ops: pd.DataFrame) -> pd.DataFrame:
    """Return CPU ops sorted by GPU wait, then the other ops sorted by host plus kernel time."""
    on_cpu = (ops["placement"] == "cpu") & (ops["role"] == Role.COMPUTE) & ~ops["in_input_pipeline"]
    waited = ops["exposed_ps"].astype("Int64").fillna(0).to_numpy(np.int64)
    time = (ops["host_self_ps"] + ops["kernel_ps"]).to_numpy(np.int64)
    return ops.iloc[np.lexsort((-time, np.where(on_cpu, -waited, 0), ~on_cpu))]


# --- its columns -----------------------------------------------------------------------------


def _frame(facts: PageFacts, ops: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of the table, including the hidden columns `op_id` and `change_id`."""
    diagnosis, ids = facts.diagnosis, ops["op_id"]
    host_ps, wait_ps = diagnosis.costs.host_by_op_ps, diagnosis.costs.exposed_by_op_ps
    kept = ["op_id", "name", "type", "placement", "occurrences", "input_types", "function", "host"]
    frame = ops[kept].copy()
    frame["occurrences"] = frame["occurrences"].mask(ops["no_event"].notna())
    frame["no_event"] = [
        word("no_event", why) if isinstance(why, str) else None for why in ops["no_event"]
    ]
    frame["role"] = ops["role"].astype(str).str.replace("_", " ")
    frame["with_a_gpu"] = _with_a_gpu(diagnosis, ops)
    frame["cause"] = _joined(ids, _causes(diagnosis))
    of_op = facts.changes_of_op
    frame["change"] = _joined(ids, {op_id: [c.title for c in of] for op_id, of in of_op.items()})
    targets = {op_id: [f"change-{c.id}" for c in of] for op_id, of in of_op.items()}
    frame["change_id"] = _joined(ids, targets)
    # An op without host time left no event on the host; at tracer level 2, these are device ops.
    has_host_time = ops["host_self_ps"] > 0
    took = ops["host_self_ps"] if host_ps is None else ids.map(host_ps)
    frame["host_us"] = _numbers(took.where(has_host_time)) / PS_PER_US
    waited = ops["exposed_ps"] if wait_ps is None else ids.map(wait_ps)
    waited = waited.where(ops["exposed_ps"].notna() & has_host_time)
    frame["gpu_wait_us"] = _numbers(waited) / PS_PER_US
    has_kernels = ops["kernels"].astype("Int64").fillna(0).gt(0).astype(bool)
    frame["kernel_us"] = _numbers(ops["kernel_ps"].where(has_kernels)) / PS_PER_US
    moved = ops["h2d_bytes"] + ops["d2h_bytes"]
    unknown = moved.eq(0) & ids.isin(copies_of_unknown_size(facts.run.transfers))
    frame["transfer_bytes"] = np.nan if moved.eq(0).all() else _numbers(moved.mask(unknown))
    frame["requested_device"] = ops["requested_device"].astype(object).replace("", "none")
    frame["source"] = places(ops, facts.run)
    return frame


def _numbers(column: pd.Series[Any]) -> NDArray[np.float64]:
    numbers = pd.to_numeric(column).astype("Float64")
    return np.asarray(numbers.to_numpy(np.float64, na_value=np.nan))


def _joined(ids: pd.Series[str], texts: Mapping[str, Iterable[str]]) -> list[str | None]:
    joined = {op: " | ".join(dict.fromkeys(of)).replace("`", "") for op, of in texts.items()}
    return [joined.get(op_id) or None for op_id in ids]


def _causes(diagnosis: Diagnosis) -> dict[str, list[str]]:
    """Return the titles of each op's causes: predicted causes if there is a prediction."""
    there = diagnosis.on_a_gpu
    findings, unexplained = diagnosis.findings, diagnosis.unexplained["op_id"].tolist()
    if there is not None:
        findings, unexplained = there.findings, list(there.unexplained)
    found: dict[str, list[str]] = {}
    for finding in findings:
        for op_id in (*finding.op_ids, *finding.dragged_along):
            found.setdefault(op_id, []).append(cause_title(finding.cause))
    return {op_id: ["unknown"] for op_id in unexplained} | found


def _with_a_gpu(diagnosis: Diagnosis, ops: pd.DataFrame) -> list[str | None]:
    if diagnosis.on_a_gpu is None:
        return [None] * len(ops)
    there = diagnosis.on_a_gpu.analysis
    python = ops["op_id"][ops["type"].isin(PYTHON_CALLBACKS)]
    others = ops["op_id"][ops["role"] != Role.COMPUTE]
    predicted: dict[str, str | None] = {
        **dict.fromkeys(there.cpu_ops, "cpu"),
        **dict.fromkeys(there.on_host, "gpu, computed on the host"),
        **dict.fromkeys(there.unsure, "gpu or cpu"),
        **dict.fromkeys(python, "gpu, calls Python on the host"),
        **dict.fromkeys([*there.not_replayed, *there.replaced, *others]),
    }
    return [predicted.get(op_id, "gpu") for op_id in ops["op_id"]]


# --- packed ----------------------------------------------------------------------------------


def _packed(frame: pd.DataFrame, total_rows: int) -> PackedTable:
    """Pack the rows, and drop the last ones if the data is too large."""
    packed = pack({str(name): _column(frame[name]) for name in frame}, total_rows)
    if len(packed.data) <= _MAX_BYTES or len(frame) == 1:
        return packed
    fitting = int(0.95 * len(frame) * _MAX_BYTES / len(packed.data))
    return _packed(frame.head(max(1, fitting)), total_rows)


def _column(column: pd.Series[Any]) -> Numbers | Texts:
    name = str(column.name)
    if name.endswith("_us"):
        return Numbers(_numbers(column), per=1000)  # nanoseconds
    if name in {"occurrences", "transfer_bytes"}:
        return Numbers(_numbers(column))
    codes, distinct = pd.factorize(column.astype(object))
    texts = [cut(str(text), _LONGEST) for text in distinct]
    # Sorted as readers expect, so that rows can be sorted by the indices of their texts.
    keys = [_DIGITS.sub(lambda digits: digits[0].zfill(12), text.lower()) for text in texts]
    order = sorted(range(len(texts)), key=lambda k: (keys[k], texts[k]))
    position = np.append(np.argsort(order), -1)  # the last is for None, whose code is -1
    return Texts(position[codes], [texts[k] for k in order])
