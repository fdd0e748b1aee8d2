"""The tab Ops: one table of all ops."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from traceanalyzer.causes import all_causes
from traceanalyzer.format import counted
from traceanalyzer.model import blocks as b
from traceanalyzer.report.packed import Numbers, Texts, pack
from traceanalyzer.report.records import copies_of_unknown_size
from traceanalyzer.source_files import shown_files
from traceanalyzer.tables.vocabulary import PYTHON_CALLBACKS, Role
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.model import PackedTable
    from traceanalyzer.report.page_facts import PageFacts
    from traceanalyzer.run import Run

_PER_US: Final = 1000  # times are kept in nanoseconds
_MAX_ROWS: Final = 20_000
_MAX_BYTES: Final = 900_000  # of the packed table
# Characters of a text: names are cut in their middle before ops are left out.
_LONGEST: Final = (240, 96, 64)
_DIGITS: Final = re.compile(r"\d+")
# Entries in the glossary, by name of the column.
_TERMS: Final = {
    "name": "op",
    "placement": "placement",
    "with_a_gpu": "placement",
    "requested_device": "requested device",
    "cause": "cause",
    "gpu_wait_us": "GPU wait",
    "host_us": "host time",
    "kernel_us": "kernel",
    "transfer_bytes": "transfer",
    "host": "host",
}
_COLUMNS: Final[tuple[tuple[str, str, b.Kind], ...]] = (
    ("op_id", "", "text"),
    ("name", "Op", "code"),
    ("type", "Type", "code"),
    ("placement", "Placement", "code"),
    ("with_a_gpu", "With a GPU", "code"),
    ("requested_device", "Requested device", "code"),
    ("cause", "Cause", "text"),
    ("change", "Change", "text"),
    ("change_id", "", "text"),
    ("gpu_wait_us", "GPU wait{waits}", "us"),
    ("host_us", "Host time{took}", "us"),
    ("kernel_us", "Kernel time", "us"),
    ("transfer_bytes", "Transfers", "bytes"),
    ("occurrences", "Occurrences", "count"),
    ("input_types", "Input types", "code"),
    ("function", "Function", "code"),
    ("role", "Role", "text"),
    ("host", "Host", "code"),
    ("source", "Source", "code"),
)


def ops_tab(facts: PageFacts) -> b.Tab | None:
    """Return the tab; None without ops."""
    run, costs = facts.run, facts.diagnosis.costs
    if run.ops.empty:
        return None
    frame = _frame(facts, ranked(run.ops).head(_MAX_ROWS))
    unknown = {name for name in frame.columns if frame[name].isna().all()}
    unknown |= {"host"} if len(run.hosts) == 1 else set()
    packed = _packed(frame[[name for name, *_ in _COLUMNS if name not in unknown]], len(run.ops))
    per_step = {
        "waits": "" if costs.exposed_by_op_ps is None else "/step",
        "took": "" if costs.host_by_op_ps is None else "/step",
    }
    columns = tuple(
        b.Column(name=name, title=title.format(**per_step), kind=kind, term=_TERMS.get(name, ""),
                 opens="op" if name == "name" else "source" if name == "source" else "")
        for name, title, kind in _COLUMNS
        if title and name not in unknown
    )  # fmt: skip
    blocks: list[b.Block] = [b.BigTable(id="ops-table", columns=columns, packed=packed)]
    if packed.rows < len(run.ops):
        left_out = counted(len(run.ops) - packed.rows, "op")
        text = f"{left_out} with the least time are not in this page. All ops: "
        command = b.Code(text="traceanalyzer tables PATH -o DIR")
        blocks.append(b.Note(text=(text, command)))
    return b.Tab(id="ops", title="Ops", count=len(run.ops), blocks=tuple(blocks))


def ranked(ops: pd.DataFrame) -> pd.DataFrame:
    """Return the CPU-placed ops by GPU wait, then the others by host and kernel time."""
    on_cpu = (ops["placement"] == "cpu") & (ops["role"] == Role.COMPUTE) & ~ops["in_input_pipeline"]
    waited = ops["exposed_ps"].astype("Int64").fillna(0).to_numpy(np.int64)
    time = (ops["host_self_ps"] + ops["kernel_ps"]).to_numpy(np.int64)
    return ops.iloc[np.lexsort((-time, np.where(on_cpu, -waited, 0), ~on_cpu))]


# --- its columns -----------------------------------------------------------------------------


def _frame(facts: PageFacts, ops: pd.DataFrame) -> pd.DataFrame:
    diagnosis, ids = facts.diagnosis, ops["op_id"]
    host_ps, wait_ps = diagnosis.costs.host_by_op_ps, diagnosis.costs.exposed_by_op_ps
    kept = ["op_id", "name", "type", "placement", "occurrences", "input_types", "function", "host"]
    frame = ops[kept].copy()
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
    frame["host_us"] = _us(took.where(has_host_time))
    waited = ops["exposed_ps"] if wait_ps is None else ids.map(wait_ps)
    frame["gpu_wait_us"] = _us(waited.where(ops["exposed_ps"].notna() & has_host_time))
    has_kernels = ops["kernels"].astype("Int64").fillna(0).gt(0)
    frame["kernel_us"] = _us(ops["kernel_ps"].where(has_kernels.astype(bool)))
    moved = ops["h2d_bytes"] + ops["d2h_bytes"]
    unknown = moved.eq(0) & ids.isin(copies_of_unknown_size(facts.run.transfers))
    frame["transfer_bytes"] = np.nan if moved.eq(0).all() else _numbers(moved.mask(unknown))
    frame["requested_device"] = ops["requested_device"].astype(object).replace("", "none")
    frame["source"] = _sources(ops, facts.run)
    return frame


def _us(ps: pd.Series[Any]) -> NDArray[np.float64]:
    return np.divide(_numbers(ps), PS_PER_US, dtype=np.float64)


def _numbers(column: pd.Series[Any]) -> NDArray[np.float64]:
    """Return a numeric column of any dtype as floats, NaN where unknown."""
    numbers = pd.to_numeric(column).astype("Float64")
    return np.asarray(numbers.to_numpy(np.float64, na_value=np.nan))


def _joined(ids: pd.Series[str], texts: Mapping[str, Iterable[str]]) -> list[str | None]:
    """Return the distinct texts of each op, joined; None if it has none."""
    joined = {op: " | ".join(dict.fromkeys(of)).replace("`", "") for op, of in texts.items()}
    return [joined.get(op_id) or None for op_id in ids]


def _causes(diagnosis: Diagnosis) -> dict[str, list[str]]:
    """Return the titles of each op's causes; if there is a prediction, on a machine with a GPU."""
    titles = {cause.id: cause.title for cause in all_causes()}
    there = diagnosis.on_a_gpu
    findings, unexplained = diagnosis.findings, diagnosis.unexplained["op_id"].tolist()
    if there is not None:
        findings, unexplained = there.findings, list(there.unexplained)
    found: dict[str, list[str]] = {}
    for finding in findings:
        for op_id in (*finding.op_ids, *finding.dragged_along):
            found.setdefault(op_id, []).append(titles.get(finding.cause, finding.cause))
    return {op_id: ["unknown"] for op_id in unexplained} | found


def _with_a_gpu(diagnosis: Diagnosis, ops: pd.DataFrame) -> list[str | None]:
    """Return where a replay of the placer puts each op on a machine with a GPU."""
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


def _sources(ops: pd.DataFrame, run: Run) -> list[str | None]:
    """Return the line of each op; each file is looked up once."""
    distinct = ops["source_file"].dropna().unique().tolist()
    shown = dict(zip(distinct, shown_files(distinct, run), strict=True))
    return [
        None if pd.isna(file) else shown[file] if pd.isna(line) else f"{shown[file]}:{line:.0f}"
        for file, line in zip(ops["source_file"], ops["source_line"], strict=True)
    ]


# --- packed ----------------------------------------------------------------------------------


def _packed(frame: pd.DataFrame, total_rows: int) -> PackedTable:
    """Pack rows; if they are too large, cut long texts, then leave out the last rows."""
    for longest in _LONGEST:
        packed = pack({n: _column(frame[n], longest) for n in frame.columns}, total_rows)
        if len(packed.data) <= _MAX_BYTES:
            return packed
    while len(packed.data) > _MAX_BYTES and len(frame) > 1:
        frame = frame.head(max(1, int(len(frame) * 0.95 * _MAX_BYTES / len(packed.data))))
        packed = pack({n: _column(frame[n], longest) for n in frame.columns}, total_rows)
    return packed


def _column(column: pd.Series[Any], longest: int) -> Numbers | Texts:
    name = str(column.name)
    if name.endswith("_us"):
        return Numbers(_numbers(column), per=_PER_US)
    if name in {"occurrences", "transfer_bytes"}:
        return Numbers(_numbers(column))
    codes, distinct = pd.factorize(column.astype(object))
    texts = [_short(str(value), longest) for value in distinct.tolist()]
    # In reading order, so that rows can be sorted by the indices of their texts.
    order = sorted(range(len(texts)), key=lambda k: _sort_key(texts[k]))
    places = np.empty(len(texts) + 1, np.int64)
    places[order] = np.arange(len(texts))
    places[-1] = -1  # where the code is -1, for None
    return Texts(places[codes], [texts[k] for k in order])


def _sort_key(value: str) -> tuple[str, str]:
    """Sort as readers expect: letters regardless of case, numbers by value."""
    return _DIGITS.sub(lambda found: found[0].zfill(12), value.lower()), value


def _short(value: str, longest: int) -> str:
    half = (longest - 1) // 2
    return value if len(value) <= longest else f"{value[:half]}…{value[-half:]}"
